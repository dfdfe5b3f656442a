/** The mirror of a scope, made of its setting: another setting may need another one. */

import type { Clock } from '../../net/clock.js'
import { openOnly } from './introduction.js'
import { createMirror, type Mirror, type MirrorOptions } from './mirror.js'
import { PUBLIC, paceOf, type ScopeSetting } from './scope-setting.js'

type Means = Pick<MirrorOptions, 'referencesFor' | 'namesFor' | 'asked' | 'random' | 'share'> & {
  clock: Clock
  open: MirrorOptions['alike']
}

export function mirrorOf(
  { scope, entry, pace, contact }: ScopeSetting,
  { referencesFor, namesFor, asked, clock, random, open, share }: Means,
): Mirror {
  const isPublic = scope.name === PUBLIC
  const auth = scope.auth ?? entry.auth
  return createMirror({
    upstream: entry.id,
    agentUrl: entry.agentUrl,
    scope: scope.name,
    seeds: entry.seeds,
    ...paceOf(pace),
    ...{ referencesFor, namesFor },
    ...(isPublic && { asked }),
    async ask(task, args, speaking) {
      const outcome = await contact.read(task, args, speaking, auth)
      return isPublic && (args.account ?? speaking?.account) ? openOnly(outcome) : outcome
    },
    sleep: contact.sleep,
    ...{ now: clock.now, random },
    ...(share && { share }),
    ...(!isPublic && { alike: open }),
    ...(scope.account && { account: scope.account }),
  })
}
