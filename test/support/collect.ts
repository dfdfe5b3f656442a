/** Collects what nobody holds: what is measured after it is what is held. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

export const collect = runInNewContext('gc') as () => void
