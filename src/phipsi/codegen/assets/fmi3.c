/* ---- FMI 3.0. Names and types are those of the standard (fmi-standard.org), written out here, so
   that no header is needed. ---- */

API const char *FMI(GetVersion)(void) { return "3.0"; }

static Instance *instantiate(const char *token, void *environment, Logger *logger)
{
  Instance *s = make_instance(token);
  if (s) {
    s->environment = environment;
    s->logger = logger;
  } else if (logger) {
    logger(environment, ERROR, "logStatusError", "the instantiation token does not belong to this model, or memory allocation failed");
  }
  return s;
}

API void *FMI(InstantiateModelExchange)(const char *name, const char *token, const char *path, _Bool visible,
    _Bool logging, void *environment, Logger *logger)
{
  (void)name; (void)path; (void)visible; (void)logging;
#ifdef HAS_SLOPE
  return instantiate(token, environment, logger);
#else
  (void)token;
  if (logger) logger(environment, ERROR, "logStatusError", "this model supports co-simulation only");
  return 0;
#endif
}

API void *FMI(InstantiateCoSimulation)(const char *name, const char *token, const char *path, _Bool visible,
    _Bool logging, _Bool events, _Bool early, const unsigned required[], size_t n, void *environment,
    Logger *logger, void *intermediate)
{
  (void)name; (void)path; (void)visible; (void)logging; (void)events; (void)early; (void)required; (void)n;
  (void)intermediate;
  return instantiate(token, environment, logger);
}

API void *FMI(InstantiateScheduledExecution)(const char *name, const char *token, const char *path, _Bool visible,
    _Bool logging, void *environment, Logger *logger, void *clocks, void *lock, void *unlock)
{
  (void)name; (void)token; (void)path; (void)visible; (void)logging; (void)clocks; (void)lock; (void)unlock;
  if (logger) logger(environment, ERROR, "logStatusError", "this model does not support scheduled execution");
  return 0;
}

API void FMI(FreeInstance)(Instance *s) { free(s); }

API int FMI(EnterInitializationMode)(Instance *s, _Bool has_tolerance, double tolerance, double start,
    _Bool has_stop, double stop)
{
  (void)has_tolerance; (void)tolerance; (void)has_stop; (void)stop;
  return enter_initialization(s, start);
}

API int FMI(GetFloat64)(Instance *s, const unsigned references[], size_t n, double values[], size_t m)
{ return m == n ? get_values(s, references, n, values) : ERROR; }

API int FMI(SetFloat64)(Instance *s, const unsigned references[], size_t n, const double values[], size_t m)
{ return m == n ? set_values(s, references, n, values) : ERROR; }

API int FMI(DoStep)(Instance *s, double t, double interval, _Bool no_set, _Bool *event, _Bool *terminate,
    _Bool *early, double *last)
{
  int status = do_step(s, t, interval);
  (void)no_set;
  *event = *terminate = *early = 0;
  *last = status == OK ? t + interval : t;
  return status;
}

/* model exchange */
API int FMI(GetNumberOfContinuousStates)(Instance *s, size_t *n) { (void)s; *n = N_STATES; return OK; }
API int FMI(GetNumberOfEventIndicators)(Instance *s, size_t *n) { (void)s; *n = 0; return OK; }
API int FMI(GetContinuousStateDerivatives)(Instance *s, double x[], size_t n) { return n == N_STATES ? get_derivatives(s, x) : ERROR; }

API int FMI(UpdateDiscreteStates)(Instance *s, _Bool *more, _Bool *terminate, _Bool *nominals, _Bool *changed,
    _Bool *defined, double *next)
{
  int is_changed, is_defined, status = update_discrete(s, &is_changed, &is_defined, next);
  *more = *terminate = *nominals = 0;
  *changed = is_changed;
  *defined = is_defined;
  return status;
}

#ifdef HAS_PULL
#define PARTIAL(f, function, ns, no) API int FMI(f)(Instance *s, const unsigned unknowns[], size_t nu, \
    const unsigned knowns[], size_t nk, const double seed[], size_t m, double out[], size_t n) \
  { return m == ns && n == no ? function(s, unknowns, nu, knowns, nk, seed, out) : ERROR; }
PARTIAL(GetDirectionalDerivative, directional, nk, nu)
PARTIAL(GetAdjointDerivative, adjoint, nu, nk)
#else
API int FMI(GetDirectionalDerivative)(void *s) { (void)s; return ERROR; }
API int FMI(GetAdjointDerivative)(void *s) { (void)s; return ERROR; }
#endif

/* modes that need nothing, and kinds of variables that there are none of */
#define NONE(f) API int FMI(f)(void *s, const unsigned references[], size_t n, void *values, size_t m) \
  { (void)s; (void)references; (void)values; (void)m; return n ? ERROR : OK; }
NOTHING(ExitInitializationMode) NOTHING(EnterEventMode) NOTHING(EnterContinuousTimeMode) NOTHING(EnterStepMode)
NOTHING(Terminate) NOTHING(EnterConfigurationMode) NOTHING(ExitConfigurationMode) NOTHING(EvaluateDiscreteStates)
NONE(GetFloat32) NONE(GetInt8) NONE(GetUInt8) NONE(GetInt16) NONE(GetUInt16) NONE(GetInt32) NONE(GetUInt32)
NONE(GetInt64) NONE(GetUInt64) NONE(GetBoolean) NONE(GetString) NONE(SetFloat32) NONE(SetInt8) NONE(SetUInt8)
NONE(SetInt16) NONE(SetUInt16) NONE(SetInt32) NONE(SetUInt32) NONE(SetInt64) NONE(SetUInt64) NONE(SetBoolean)
NONE(SetString)
NO(GetBinary) NO(SetBinary) NO(GetClock) NO(SetClock) NO(GetNumberOfVariableDependencies) NO(GetVariableDependencies)
NO(GetIntervalDecimal) NO(GetIntervalFraction)
NO(GetShiftDecimal) NO(GetShiftFraction) NO(SetIntervalDecimal) NO(SetIntervalFraction) NO(SetShiftDecimal)
NO(SetShiftFraction) NO(GetOutputDerivatives) NO(ActivateModelPartition)
