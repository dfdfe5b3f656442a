/**
 * What `npm ci` does at its end: it builds where the compiler was installed, all that the package holds, because whoever
 * installs from git has nothing else run. `npm ci --omit=dev` installs no compiler, for a checkout that was built before or
 * elsewhere.
 */
import { execSync } from 'node:child_process'
import { existsSync } from 'node:fs'

if (existsSync('node_modules/typescript')) {
  execSync('npm run --silent build && npm run --silent types && tap build', { stdio: 'inherit' })
} else if (!existsSync('dist/program/main.js')) {
  console.log('Nothing is built here, and no compiler was installed: run `npm ci` without --omit=dev first.')
}
