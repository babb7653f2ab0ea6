// Prints `N passed, N failed` from the test runner's JSON report; without a report the run did not get as far as a test.
import { existsSync, readFileSync } from 'node:fs';

const [file] = process.argv.slice(2);
if (existsSync(file)) {
  const {
    numPassedTests: passed,
    numFailedTests: failed,
    numFailedTestSuites: suites,
    numPendingTests: skipped,
  } = JSON.parse(readFileSync(file, 'utf8'));
  // A suite that does not even load has no failed test of its own.
  process.stdout.write(`${passed} passed, ${failed || suites} failed${skipped ? `, ${skipped} skipped` : ''}\n`);
} else {
  process.stdout.write('0 passed, 1 failed\n');
}
