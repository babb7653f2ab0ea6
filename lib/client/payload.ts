import type { StandardSchemaV1 } from '@standard-schema/spec';
import { jsonPayload } from '../wire/index.ts';
import { invalid } from './calls.ts';

/** What goes without a schema: bytes as they are, a string as UTF-8, any other value as JSON. */
export type AnyPayload = Uint8Array | string | number | boolean | null | object;

/** Any Standard Schema (zod, valibot, arktype and others) whose input is JSON. */
export type Schema<Input = unknown> = StandardSchemaV1<Input>;

export type In<S extends Schema> = StandardSchemaV1.InferInput<S>;

/**
 * The bytes of a payload or notification.
 *
 * With a schema, what is validated is what the worker will read: the value as JSON carries it. So a `Date` for a schema that wants a
 * `Date` is refused here and not there. What is sent is that input, never the schema's output: the worker parses, so transforms run once.
 */
export async function bytesOf(what: 'payload' | 'notification', value: unknown, schema: Schema | undefined): Promise<Uint8Array> {
  if (schema) {
    const bytes = jsonPayload(value);
    const { issues } = await schema['~standard'].validate(JSON.parse(new TextDecoder().decode(bytes)));
    if (issues) throw invalid(`the ${what} does not fit its schema: ${issues.map(textOf).join('; ')}`, issues);
    return bytes;
  }
  if (value instanceof Uint8Array) return value;
  if (typeof value !== 'string') return jsonPayload(value);
  if (!value.isWellFormed()) throw invalid(`the ${what} holds a lone surrogate, which UTF-8 does not have`);
  return new TextEncoder().encode(value);
}

function textOf({ path = [], message }: StandardSchemaV1.Issue): string {
  const at = path.map((step) => String(typeof step === 'object' ? step.key : step)).join('.');
  return at === '' ? message : `${at}: ${message}`;
}
