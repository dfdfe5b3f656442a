/**
 * Node without the test runner's hooks, which every process that a test starts would load: they cost half of its start.
 * The runner puts them back into whatever environment is given, so they are taken out once the process is there.
 */
export const NODE = 'env'

/** Node's arguments, to be given to `NODE`. */
export const nodeArguments = (...args: readonly string[]): string[] => [
  '-u',
  'NODE_OPTIONS',
  process.execPath,
  ...args,
]
