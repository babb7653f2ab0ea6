import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App, type Environment, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { afterAll } from 'vitest';
import { JobPool, type JobPoolProps } from '../../infra/index.ts';

const assemblies = mkdtempSync(join(tmpdir(), 'holdfast-synth-'));
afterAll(() => rmSync(assemblies, { recursive: true, force: true }));

// CloudFormation's own rules take seconds each time; one test holds the template against them (conventions.test.ts).
process.env.CDK_VALIDATION = 'false';

export function anApp(context: Record<string, unknown> = {}): App {
  return new App({ outdir: mkdtempSync(join(assemblies, 'app-')), context });
}

export function aPool(props: JobPoolProps = {}, env?: Environment): { app: App; stack: Stack; pool: JobPool } {
  const app = anApp();
  const stack = new Stack(app, 'Shop', { ...(env && { env }) });
  return { app, stack, pool: new JobPool(stack, 'Feeds', props) };
}

type Resources = ReturnType<Template['findResources']>;

/** Resources by logical id. */
export function resourcesOf(stack: Stack, type?: string): Resources {
  const template = Template.fromStack(stack);
  return type === undefined ? (template.toJSON().Resources ?? {}) : template.findResources(type);
}

export interface Statement {
  readonly Effect: 'Allow' | 'Deny';
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
}

/** Every statement of every role, managed policy and queue policy. */
export function statementsOf(resources: Resources): readonly Statement[] {
  return Object.values(resources).flatMap(({ Properties: { PolicyDocument: own, Policies: inline = [] } = {} }) => {
    const documents = [own, ...inline.map(({ PolicyDocument }: { PolicyDocument: unknown }) => PolicyDocument)];
    return documents.flatMap((document) => document?.Statement ?? []);
  });
}

export function actionsOf({ Action }: Statement): readonly string[] {
  return typeof Action === 'string' ? [Action] : Action;
}
