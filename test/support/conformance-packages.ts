/** The packages of the conformance run: it stands before the slow tests in CI; elsewhere they are installed when asked for. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'

const INSTALL = ['ci', '--prefix', 'conformance', '--ignore-scripts', '--no-audit', '--no-fund']

/** Resolves once they are there; rejects with what npm says. */
export async function needConformancePackages(): Promise<void> {
  if (existsSync('conformance/node_modules/.package-lock.json')) return
  await promisify(execFile)('npm', INSTALL)
}
