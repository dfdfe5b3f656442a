/**
 * Our subscriptions at upstreams, as all processes on a storage know them: whichever of them an upstream's message comes to can
 * tell what it is about. Who subscribes tells the others before it asks, and then what came of it. A process that is alone has
 * nobody to tell.
 */
import type { Clock } from '../net/clock.js'
import type { Sharing } from '../upstreams/rows/storage.js'

const PREFIX = 'events/at/'

type Registration = {
  /** Where the upstream's operator names its keys. */
  brandJsonUrl: string
  /** The events that are asked for. */
  types: readonly string[]
  /** The upstream's name of our account, once it has given it. */
  accountId?: string
  /** A subscribing request is under way: a challenge may come now. */
  isAsking: boolean
}

type RegistrationsOptions = {
  /** Absent when this process is alone. */
  sharing?: Pick<Sharing, 'tell' | 'hear' | 'heard'> | undefined
  clock: Pick<Clock, 'now'>
}

/** Each is named by the token in the url that the upstream was given. */
export function createRegistrations({ sharing, clock }: RegistrationsOptions) {
  const known = new Map<string, Registration & { toldAt: number }>()

  function take(token: string, registration: Registration | null, toldAt: number): void {
    if (registration) known.set(token, { ...registration, toldAt })
    else known.delete(token)
  }

  sharing?.hear(PREFIX, (name, value, ageMs) => {
    take(name.slice(PREFIX.length), value as Registration | null, clock.now() - ageMs)
  })

  return {
    of: (token: string) => known.get(token),
    /** Resolves when what was told so far is known here; false when it cannot be for now. */
    heard: async (): Promise<boolean> => (await sharing?.heard()) !== false,
    /** Replaces it for all processes; null: there is none any more. Where others cannot be told, this one goes by it all the same. */
    async tell(token: string, registration: Registration | null): Promise<void> {
      const isTold = sharing && (await sharing.tell(`${PREFIX}${token}`, registration))
      if (!isTold || !(await sharing.heard())) take(token, registration, clock.now())
    },
  }
}

export type Registrations = ReturnType<typeof createRegistrations>
