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
