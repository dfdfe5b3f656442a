/** Other builds of this program, to run beside this one: an earlier commit, and one whose snapshots have another form. */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { unpack } from '../../support/history.js'

const run = promisify(execFile)

/** The release before this one, on the main branch: to be moved with each release. */
export const OLDER = 'e63fd63f3a0c26eddccf03d338213009f0ce8a6a'

const FORM = /(SNAPSHOT_FORM = )(\d+)/

async function folder(t: Test): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'tributary-release-'))
  t.teardown(() => rm(root, { recursive: true, force: true }))
  await symlink(resolve('node_modules'), join(root, 'node_modules'))
  return root
}

/** The entry of this build with other snapshots: what a release that changes their form is to this one. */
export async function withOtherSnapshots(t: Test): Promise<string> {
  const root = await folder(t)
  await mkdir(join(root, 'dist'))
  await symlink(resolve('dist/program'), join(root, 'dist/program')) // what the page loads of packages
  await cp('dist/src', join(root, 'dist/src'), { recursive: true })
  for (const name of ['config', 'console', 'package.json']) await symlink(resolve(name), join(root, name))
  const file = join(root, 'dist/src/snapshot/snapshot.js')
  const text = await readFile(file, 'utf8')
  if (!FORM.test(text)) throw new Error('where is the form of snapshots?')
  await writeFile(file, text.replace(FORM, '$1999'))
  return join(root, 'dist/src/main.js')
}

/** The entry of an earlier commit, built; undefined where its history is absent. */
export async function releaseAt(t: Test, commit: string): Promise<string | undefined> {
  const root = await folder(t)
  if (!(await unpack(commit, root))) return undefined
  const project = join(root, 'tsconfig.release.json')
  await writeFile(project, '{ "extends": "./tsconfig.json", "include": ["src", "sandbox"] }')
  await run(process.execPath, [resolve('node_modules/typescript/bin/tsc'), '-p', project])
  return join(root, 'dist/src/main.js')
}
