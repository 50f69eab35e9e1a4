/* ---- FMI 2.0. Names and types are those of the standard (fmi-standard.org), written out here, so
   that no header is needed. ---- */

typedef struct {
  void (*logger)(void *environment, const char *name, int status, const char *category, const char *message, ...);
  void *(*allocate)(size_t count, size_t size);
  void (*release)(void *memory);
  void (*finished)(void *environment, int status);
  void *environment;
} Callbacks;

typedef struct {
  int again, terminate, nominals, changed, defined;
  double next;
} EventInfo;

typedef struct {
  const Callbacks *callbacks;
  char name[128];
} Reporter;

static void report2(void *environment, int status, const char *category, const char *message)
{
  const Reporter *reporter = (const Reporter *)environment;
  if (reporter->callbacks && reporter->callbacks->logger)
    reporter->callbacks->logger(reporter->callbacks->environment, reporter->name, status, category, "%s", message);
}

API const char *FMI(GetTypesPlatform)(void) { return "default"; }
API const char *FMI(GetVersion)(void) { return "2.0"; }

API void *FMI(Instantiate)(const char *name, int kind, const char *token, const char *path, const Callbacks *callbacks,
    int visible, int logging)
{
  Reporter *reporter = (Reporter *)calloc(1, sizeof *reporter);
  Instance *s = 0;
  (void)path; (void)visible; (void)logging;
  if (!reporter) return 0;
  reporter->callbacks = callbacks;
  if (name) strncpy(reporter->name, name, sizeof reporter->name - 1);
#ifndef HAS_SLOPE
  if (kind == 0) report2(reporter, ERROR, "logStatusError", "this model supports co-simulation only");
  else
#endif
  s = make_instance(token);
  (void)kind;
  if (!s) {
    free(reporter);
    return 0;
  }
  s->environment = reporter;
  s->logger = report2;
  return s;
}

API void FMI(FreeInstance)(Instance *s)
{
  if (s) free(s->environment);
  free(s);
}

API int FMI(SetupExperiment)(Instance *s, int has_tolerance, double tolerance, double start, int has_stop, double stop)
{
  (void)has_tolerance; (void)tolerance; (void)has_stop; (void)stop;
  return enter_initialization(s, start);
}

API int FMI(GetReal)(Instance *s, const unsigned references[], size_t n, double values[])
{ return get_values(s, references, n, values); }

API int FMI(SetReal)(Instance *s, const unsigned references[], size_t n, const double values[])
{ return set_values(s, references, n, values); }

API int FMI(DoStep)(Instance *s, double t, double interval, int no_set)
{ (void)no_set; return do_step(s, t, interval); }

API int FMI(CancelStep)(Instance *s) { (void)s; return ERROR; }

/* model exchange */
API int FMI(GetDerivatives)(Instance *s, double x[], size_t n) { return n == N_STATES ? get_derivatives(s, x) : ERROR; }

API int FMI(NewDiscreteStates)(Instance *s, EventInfo *info)
{
  info->again = info->terminate = info->nominals = 0;
  return update_discrete(s, &info->changed, &info->defined, &info->next);
}

#ifdef HAS_PULL
API int FMI(GetDirectionalDerivative)(Instance *s, const unsigned unknowns[], size_t nu, const unsigned knowns[],
    size_t nk, const double seed[], double out[])
{
  (void)adjoint;
  return directional(s, unknowns, nu, knowns, nk, seed, out);
}
#else
API int FMI(GetDirectionalDerivative)(void *s) { (void)s; return ERROR; }
#endif

/* modes that need nothing, and kinds of variables that there are none of */
#define NONE(f) API int FMI(f)(void *s, const unsigned references[], size_t n, void *values) \
  { (void)s; (void)references; (void)values; return n ? ERROR : OK; }
NOTHING(EnterInitializationMode) NOTHING(ExitInitializationMode) NOTHING(EnterEventMode)
NOTHING(EnterContinuousTimeMode) NOTHING(Terminate)
NONE(GetInteger) NONE(GetBoolean) NONE(GetString) NONE(SetInteger) NONE(SetBoolean) NONE(SetString)
NO(SetRealInputDerivatives) NO(GetRealOutputDerivatives) NO(GetStatus) NO(GetRealStatus)
NO(GetIntegerStatus) NO(GetBooleanStatus) NO(GetStringStatus)
