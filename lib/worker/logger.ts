/** Where the runtime and handlers write. `console` is one, and so is Powertools' Logger. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

export type LogFields = { readonly [name: string]: unknown };

/** A logger that adds fields to each line; those of the line win. */
export function withFields(logger: Logger, added: () => LogFields): Logger {
  return {
    debug: (message, fields) => logger.debug(message, { ...added(), ...fields }),
    info: (message, fields) => logger.info(message, { ...added(), ...fields }),
    warn: (message, fields) => logger.warn(message, { ...added(), ...fields }),
    error: (message, fields) => logger.error(message, { ...added(), ...fields }),
  };
}

/** A logger that throws takes nothing down with it. */
export function guarded(logger: Logger): Logger {
  const guard = (level: keyof Logger) => (message: string, fields?: LogFields) => {
    try {
      logger[level](message, fields);
    } catch {
      // There is nobody left to tell.
    }
  };
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') };
}

export const logLevels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Logger)[];
export type LogLevel = (typeof logLevels)[number];

/** One line of JSON per message, with `time` and `level`. Messages below `least` are left out. */
export function jsonLogger(write: (line: string) => void, now: () => number, least: LogLevel = 'info'): Logger {
  const log = (level: LogLevel) => (message: string, fields?: LogFields) => {
    if (logLevels.indexOf(level) < logLevels.indexOf(least)) return;
    // biome-ignore lint/style/noRestrictedGlobals: writes a time down; the clock is a port.
    write(`${JSON.stringify({ time: new Date(now()).toISOString(), level, message, ...fields }, readably)}\n`);
  };
  return { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') };
}

/** What JSON would leave out or refuse. */
function readably(_: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  if (!(value instanceof Error)) return value;
  const { name, message, stack, cause, ...rest } = value;
  return { name, message, ...rest, stack, ...(cause !== undefined && { cause }) };
}
