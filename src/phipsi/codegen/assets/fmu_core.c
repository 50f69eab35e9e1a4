/* ---- the model behind FMI's functions: values by reference, steps, derivatives, events --------
   Value references are places in `values`: time, states, inputs and parameters, then from
   N_GIVEN on calculated ones: derivatives of the states, records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#elif defined(__GNUC__)
#define API __attribute__((visibility("default")))
#else
#define API
#endif

/* Functions are called fmi2… or fmi3…, with a prefix in static libraries. */
#if FMI_MAJOR == 2
#define VERSION fmi2
#define STATE FMUstate
#define DESERIALIZE DeSerialize
typedef int Truth;
#ifdef FMI2_FUNCTION_PREFIX
#define PREFIX FMI2_FUNCTION_PREFIX
#endif
#else
#define VERSION fmi3
#define STATE FMUState
#define DESERIALIZE Deserialize
typedef _Bool Truth;
#ifdef FMI3_FUNCTION_PREFIX
#define PREFIX FMI3_FUNCTION_PREFIX
#endif
#endif
#ifndef PREFIX
#define PREFIX
#endif
#define JOINED(a, b, c) a##b##c
#define NAMED(a, b, c) JOINED(a, b, c)
#define FMI(name) NAMED(PREFIX, VERSION, name)
#define FMI_STATE(before, after) FMI(NAMED(before, STATE, after))
#define NOTHING(f) API int FMI(f)(Instance *s) { (void)s; return OK; }
#define NO(f) API int FMI(f)(void *s) { (void)s; return ERROR; }

#define LARGEST INT64_C(9000000000000000) /* steps that are counted */

enum { OK, WARNING, DISCARD, ERROR, FATAL };
typedef void Logger(void *environment, int status, const char *category, const char *message);

typedef struct {
  Model model;
  void *environment;
  Logger *logger;
  double closed[N_POSITIONS]; /* positions and rates on the constraints, until the next event */
  int slope_known, look_known, is_open;
#ifdef HAS_PULL
  double rows[N_VALUES - N_GIVEN][N_GIVEN]; /* derivatives of calculated values */
  char row_known[N_VALUES - N_GIVEN];
#endif
} Instance;

static void report(Instance *s, int status, const char *text)
{
  if (s->logger) s->logger(s->environment, status, status == WARNING ? "logStatusWarning" : "logStatusError", text);
}

static int failed(Instance *s, const char *what, int status, int code)
{
  char text[256];
  sprintf(text, "%s at t = %.9g s: %s", what, s->model.values[0], status_texts[code & 7]);
  report(s, status, text);
  return status;
}

static void forget(Instance *s)
{
  s->slope_known = s->look_known = 0;
#ifdef HAS_PULL
  memset(s->row_known, 0, sizeof s->row_known);
#endif
}

static void begin_again(Instance *s)
{
  memcpy(s->model.values, start_values, sizeof start_values);
  s->model.step = s->model.tick = 0;
  s->model.begin = 0;
  s->is_open = 0;
  forget(s);
}

static Instance *make_instance(const char *token)
{
  Instance *s;
  if (!token || strcmp(token, TOKEN)) return 0;
  s = (Instance *)calloc(1, sizeof *s);
  if (!s) return 0;
  bind(&s->model);
  begin_again(s);
  return s;
}

static int slope(Instance *s)
{
#ifdef HAS_SLOPE
  if (!s->slope_known) {
    int code = run_slope(&s->model, STEP_LENGTH, 0, 1, 0);
    if (code) return failed(s, "derivatives", DISCARD, code);
    s->slope_known = 1;
  }
#else
  (void)s;
#endif
  return OK;
}

static int look(Instance *s)
{
#ifdef HAS_LOOK
  if (!s->look_known) {
    /* 1: with the samples of the step that comes next; 2: as events of model exchange left them */
    int code = run_look(&s->model, STEP_LENGTH, s->model.step, 0, s->model.tick ? 2 : 1);
    if (code) return failed(s, "outputs", DISCARD, code);
    s->look_known = 1;
  }
#else
  (void)s;
#endif
  return OK;
}

static int get_values(Instance *s, const unsigned *references, size_t count, double *values)
{
  size_t i;
  for (i = 0; i < count; i++) {
    unsigned r = references[i];
    int status = OK;
    if (r >= N_VALUES) {
      report(s, ERROR, "no variable has this value reference");
      return ERROR;
    }
    if (r >= FIRST_RECORD) status = look(s);
    else if (r >= FIRST_DERIVATIVE) status = slope(s);
    if (status != OK) return status;
    values[i] = s->model.values[r];
  }
  return OK;
}

static int set_values(Instance *s, const unsigned *references, size_t count, const double *values)
{
  size_t i;
  for (i = 0; i < count; i++) {
    if (!references[i] || references[i] >= N_GIVEN) {
      report(s, ERROR, "this variable is calculated and cannot be set, or no variable has this value reference");
      return ERROR;
    }
    s->model.values[references[i]] = values[i];
  }
  forget(s);
  return OK;
}

static int is_finite(double x) { return x - x == 0; }

static int checked_time(Instance *s, double t)
{
  if (is_finite(t)) return OK;
  report(s, ERROR, "the time must be finite");
  return ERROR;
}

static int set_time(Instance *s, double t)
{
  int status = checked_time(s, t);
  if (status != OK) return status;
  s->model.values[0] = t;
  forget(s);
  return OK;
}

static int enter_initialization(Instance *s, double t)
{
  int status = set_time(s, t);
  if (status == OK) s->model.begin = t;
  return status;
}

/* Steps of the length STEP_LENGTH where it divides the interval, else equal ones just below it. */
static int do_step(Instance *s, double t, double interval)
{
  Model *m = &s->model;
  double count = interval / STEP_LENGTH;
  int64_t n;
  double h = STEP_LENGTH;
  int code = checked_time(s, t);
  if (code != OK) return code;
  if (!(interval > 0) || !(count < (double)(LARGEST - m->step))) { /* NaN too */
    report(s, ERROR, "the communication step must be positive and finite");
    return ERROR;
  }
  n = (int64_t)(count + 0.5);
  if (n < 1 || fabs(count - (double)n) > 1e-6) {
    if (N_PERIODS) {
      report(s, ERROR, "this model has sampled laws, so the communication step must be a multiple of its step size");
      return ERROR;
    }
    n = (int64_t)count + 1;
    h = interval / (double)n;
  }
  if (fabs(m->values[0] - t) > 1e-6 * h) m->values[0] = t;
  forget(s);
  code = run_step(m, h, m->step, n, 0);
  if (code) return failed(s, "step", ERROR, code);
  m->step += n;
  return OK;
}

#if N_PERIODS && defined(HAS_SLOPE)
static int is_due(const Model *m, int64_t tick)
{
  return m->values[0] >= m->begin + (double)tick * STEP_LENGTH - 1e-6 * STEP_LENGTH;
}

static int64_t tick_after(int64_t tick)
{
  int64_t i, later = INT64_MAX;
  for (i = 0; i < N_PERIODS; i++) {
    int64_t n = (tick / periods[i] + 1) * periods[i];
    if (n < later) later = n;
  }
  return later;
}
#endif

/* Samples whose time has come; the time of the next ones, or 0 if there are none. Tools stop at that
   time: samples that were passed would have needed states of which nothing is known. */
static int sample(Instance *s, int *defined, double *next)
{
  *defined = 0;
  *next = 0;
#if N_PERIODS && defined(HAS_SLOPE)
  {
    Model *m = &s->model;
    if (is_due(m, m->tick)) {
      int64_t later = tick_after(m->tick);
      int code;
      if (is_due(m, later)) {
        report(s, ERROR, "a time event of a sampled law was missed: stop at the next event time and enter event mode there");
        return ERROR;
      }
      code = run_look(m, STEP_LENGTH, m->tick, 1, 1);
      if (code) return failed(s, "samples", ERROR, code);
      forget(s);
      m->tick = later;
    }
    *defined = 1;
    *next = m->begin + (double)m->tick * STEP_LENGTH;
  }
#else
  (void)s;
  (void)periods;
#endif
  return OK;
}

/* After a step of the solver: whether the loops are so far open that they are to be closed. */
static int completed_step(Instance *s, int *event)
{
  *event = 0;
#ifdef HAS_CLOSE
  {
    Model *m = &s->model;
    double before[N_POSITIONS], gap = 0;
    int i, code;
    memcpy(before, m->values + FIRST_POSITION, sizeof before);
    code = run_close(m, STEP_LENGTH, 0, 1, 0);
    if (code) return failed(s, "closing loops", ERROR, code);
    memcpy(s->closed, m->values + FIRST_POSITION, sizeof before);
    memcpy(m->values + FIRST_POSITION, before, sizeof before);
    for (i = 0; i < N_POSITIONS; i++) {
      double change = fabs(s->closed[i] - before[i]) / (1 + fabs(before[i]));
      if (change > gap) gap = change;
    }
    s->is_open = *event = gap > CLOSING_TOLERANCE;
  }
#else
  (void)s;
#endif
  return OK;
}

static int update_discrete(Instance *s, int *changed, int *defined, double *next)
{
  *changed = 0;
  if (s->is_open) {
    memcpy(s->model.values + FIRST_POSITION, s->closed, sizeof s->closed);
    s->is_open = 0;
    *changed = 1;
    forget(s);
  }
  return sample(s, defined, next);
}

static void get_states(Instance *s, double *x) { memcpy(x, s->model.values + 1, N_STATES * sizeof *x); }

static void set_states(Instance *s, const double *x)
{
  memcpy(s->model.values + 1, x, N_STATES * sizeof *x);
  forget(s);
}

static int get_derivatives(Instance *s, double *x)
{
  int status = slope(s);
  if (status == OK) memcpy(x, s->model.values + FIRST_DERIVATIVE, N_STATES * sizeof *x);
  return status;
}

#ifdef HAS_PULL
/* Σ weights · unknowns, differentiated by all that is given. */
static int pull(Instance *s)
{
  int code = run_pull(&s->model, STEP_LENGTH, s->model.step, 1, 0);
  return code ? failed(s, "partial derivatives", DISCARD, code) : OK;
}

static int derivatives_row(Instance *s, unsigned unknown)
{
  unsigned i = unknown - N_GIVEN;
  int status;
  if (s->row_known[i]) return OK;
  memset(s->model.weights, 0, sizeof s->model.weights);
  s->model.weights[i] = 1;
  status = pull(s);
  if (status != OK) return status;
  memcpy(s->rows[i], s->model.by, sizeof s->rows[i]);
  s->row_known[i] = 1;
  return OK;
}

static int checked_references(Instance *s, const unsigned *unknowns, size_t nu, const unsigned *knowns, size_t nk)
{
  size_t i;
  int good = 1;
  for (i = 0; i < nu; i++) good = good && unknowns[i] && unknowns[i] < N_VALUES;
  for (i = 0; i < nk; i++) good = good && knowns[i] && knowns[i] < N_GIVEN;
  if (!good) report(s, ERROR, "partial derivatives of these variables are not available");
  return good ? OK : ERROR;
}

static int directional(Instance *s, const unsigned *unknowns, size_t nu, const unsigned *knowns, size_t nk,
    const double *seed, double *out)
{
  size_t i, k;
  int status = checked_references(s, unknowns, nu, knowns, nk);
  for (i = 0; status == OK && i < nu; i++) {
    out[i] = 0;
    if (unknowns[i] >= N_GIVEN) status = derivatives_row(s, unknowns[i]);
    for (k = 0; status == OK && k < nk; k++) {
      if (unknowns[i] >= N_GIVEN) out[i] += s->rows[unknowns[i] - N_GIVEN][knowns[k]] * seed[k];
      else if (unknowns[i] == knowns[k]) out[i] += seed[k];
    }
  }
  return status;
}

static int adjoint(Instance *s, const unsigned *unknowns, size_t nu, const unsigned *knowns, size_t nk,
    const double *seed, double *out)
{
  size_t i, k;
  int status = checked_references(s, unknowns, nu, knowns, nk);
  if (status != OK) return status;
  memset(s->model.weights, 0, sizeof s->model.weights);
  for (i = 0; i < nu; i++)
    if (unknowns[i] >= N_GIVEN) s->model.weights[unknowns[i] - N_GIVEN] += seed[i];
  status = pull(s);
  for (k = 0; status == OK && k < nk; k++) {
    out[k] = s->model.by[knowns[k]];
    for (i = 0; i < nu; i++)
      if (unknowns[i] == knowns[k]) out[k] += seed[i];
  }
  return status;
}
#endif

/* Everything that a run depends on. */
typedef struct {
  double values[N_VALUES], begin, closed[N_POSITIONS];
  int64_t step, tick;
  int is_open;
} Saved;

static void save(const Instance *s, Saved *to)
{
  memcpy(to->values, s->model.values, sizeof to->values);
  memcpy(to->closed, s->closed, sizeof to->closed);
  to->begin = s->model.begin;
  to->step = s->model.step;
  to->tick = s->model.tick;
  to->is_open = s->is_open;
}

static void restore(Instance *s, const Saved *from)
{
  memcpy(s->model.values, from->values, sizeof from->values);
  memcpy(s->closed, from->closed, sizeof from->closed);
  s->model.begin = from->begin;
  s->model.step = from->step;
  s->model.tick = from->tick;
  s->is_open = from->is_open;
  forget(s);
}

/* ---- functions that FMI 2.0 and 3.0 have alike ---- */
API int FMI(SetDebugLogging)(Instance *s, Truth on, size_t n, const char *const categories[])
{ (void)s; (void)on; (void)n; (void)categories; return OK; }

API int FMI(Reset)(Instance *s) { begin_again(s); return OK; }

/* model exchange */
API int FMI(SetTime)(Instance *s, double t) { return set_time(s, t); }
API int FMI(GetContinuousStates)(Instance *s, double x[], size_t n) { if (n != N_STATES) return ERROR; get_states(s, x); return OK; }
API int FMI(SetContinuousStates)(Instance *s, const double x[], size_t n) { if (n != N_STATES) return ERROR; set_states(s, x); return OK; }
API int FMI(GetEventIndicators)(Instance *s, double x[], size_t n) { (void)s; (void)x; (void)n; return OK; }

API int FMI(GetNominalsOfContinuousStates)(Instance *s, double x[], size_t n)
{
  size_t i;
  (void)s;
  for (i = 0; i < n; i++) x[i] = 1;
  return OK;
}

API int FMI(CompletedIntegratorStep)(Instance *s, Truth no_set, Truth *event, Truth *terminate)
{
  int is_event, status = completed_step(s, &is_event);
  (void)no_set;
  *event = is_event;
  *terminate = 0;
  return status;
}

/* the state as a whole */
API int FMI_STATE(Get, )(Instance *s, void **state)
{
  if (!*state) *state = malloc(sizeof(Saved));
  if (!*state) return ERROR;
  save(s, (Saved *)*state);
  return OK;
}

API int FMI_STATE(Set, )(Instance *s, void *state) { restore(s, (const Saved *)state); return OK; }

API int FMI_STATE(Free, )(Instance *s, void **state)
{
  (void)s;
  free(*state);
  *state = 0;
  return OK;
}

API int FMI_STATE(Serialized, Size)(Instance *s, void *state, size_t *n)
{ (void)s; (void)state; *n = sizeof(Saved); return OK; }

API int FMI_STATE(Serialize, )(Instance *s, void *state, unsigned char bytes[], size_t n)
{
  (void)s;
  if (n < sizeof(Saved)) return ERROR;
  memcpy(bytes, state, sizeof(Saved));
  return OK;
}

API int FMI_STATE(DESERIALIZE, )(Instance *s, const unsigned char bytes[], size_t n, void **state)
{
  Saved *found;
  if (n < sizeof *found) return ERROR;
  found = (Saved *)malloc(sizeof *found);
  if (!found) return ERROR;
  memcpy(found, bytes, sizeof *found);
  if (!is_finite(found->values[0]) || !is_finite(found->begin) || found->step < 0 || found->tick < 0
      || found->step > LARGEST || found->tick > LARGEST) {
    free(found);
    report(s, ERROR, "the serialized state does not belong to this model");
    return ERROR;
  }
  free(*state);
  *state = found;
  return OK;
}
