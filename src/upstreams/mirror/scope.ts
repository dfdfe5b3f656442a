/**
 * Keeps what one upstream offers to one scope current: to everybody, or to one account of a caller. The same rules for
 * both: read on a schedule, kept over failures and restarts until its cap, and dropped then.
 */
import { isDeepStrictEqual } from 'node:util'
import { shownUrl } from '../../adcp/redaction.js'
import type { SignalRef } from '../../adcp/reference.js'
import { backoffMs, jittered } from '../../net/backoff.js'
import type { Clock } from '../../net/clock.js'
import type { Dialect } from '../agent/dialect/dialect.js'
import { TOKEN_LIE, type UpstreamFailure, type UpstreamStatus } from '../agent/status.js'
import type { Slice } from '../rows/slice.js'
import type { Governor } from '../walk/governor.js'
import { isDistrusted } from '../walk/spot-check.js'
import type { Asked } from './asked.js'
import { createHurry } from './hurry.js'
import { openOnly, refreshIntroduced } from './introduction.js'
import { createMirror, type HeldSlice, type Mirror, type MirrorOutcome } from './mirror.js'
import {
  isOther,
  isRateCard,
  needsAnother,
  ownerOf,
  PUBLIC,
  paceOf,
  rateCard,
  type ScopeSetting,
  takenOver,
  untokened,
  withId,
} from './scope-setting.js'
import type { SliceStore } from './slice-store.js'
import { createWholeReading } from './whole-reading.js'

/** How a scope is doing, in one word: the states of an upstream, and `empty` for a feed that was read and has no row. */
export type ScopeState = UpstreamStatus['state'] | 'empty'

export type Transition = {
  upstream: string
  scope: string
  from: ScopeState
  to: ScopeState
  rows: number
  reason?: UpstreamFailure
  /** What was tried, and what came back. */
  message?: string
}

export type ScopeStatus = UpstreamStatus & {
  scope: string
  /** The upstream says that this account is priced off what everybody is offered. */
  rateCard: boolean
}

export type ScopeOptions = {
  setting: ScopeSetting
  store: SliceStore
  governor: Governor
  clock: Clock
  random(): number
  referencesFor(agentUrl: string): readonly SignalRef[] | Promise<readonly SignalRef[]>
  namesFor(agentUrl: string): readonly string[] | Promise<readonly string[]>
  asked: Asked
  /** What the upstream offers to everybody. */
  open(): Slice | undefined
  /** What is held is another thing now, or gone. */
  onChange(): void
  onTransition(transition: Transition): void
  /** Told in words of what an operator should hear at once. */
  onTrouble(message: string): void
}

export function createScope(options: ScopeOptions) {
  const { store, governor, clock, random, onChange, onTransition, onTrouble } = options
  let setting = options.setting
  const share = governor.share(setting.entry.agentUrl, evict)
  let mirror = mirrorFor(setting)
  let held: HeldSlice | undefined
  let problem: UpstreamStatus['problem']
  let failures = 0
  let answered = false
  let nextAttemptAt: number | undefined
  let cancelAttempt = () => {}
  let cancelStale = () => {}
  let cancelDrop = () => {}
  let refreshing: Promise<void> | undefined
  let againSoon = false
  const hurry = createHurry(clock)
  let isAwaited = false // somebody asked for a refresh that has not begun
  let checks = 0 // of what may be news, under way
  let isOpen = false // what was saved is taken up
  let isClosed = false
  let told: ScopeState = 'starting'

  function mirrorFor({ scope, entry, pace, contact }: ScopeSetting): Mirror {
    const isPublic = scope.name === PUBLIC
    const auth = scope.auth ?? entry.auth
    return createMirror({
      upstream: entry.id,
      agentUrl: entry.agentUrl,
      scope: scope.name,
      seeds: entry.seeds,
      ...paceOf(pace),
      ...{ referencesFor: options.referencesFor, namesFor: options.namesFor },
      ...(isPublic && { asked: options.asked }),
      async ask(task, args, speaking) {
        const outcome = await contact.read(task, args, speaking, auth)
        return isPublic && (args.account ?? speaking?.account) ? openOnly(outcome) : outcome
      },
      sleep: contact.sleep,
      ...{ now: clock.now, random },
      share,
      ...(!isPublic && { alike: options.open }),
      ...(scope.account && { account: scope.account }),
    })
  }

  const key = () => ({ agentUrl: setting.entry.agentUrl, scope: setting.scope.name })
  const whole = createWholeReading({ store, key })

  function state(): UpstreamStatus['state'] {
    if (!held) return answered ? 'absent' : 'starting'
    return problem || clock.now() - held.confirmedAt > setting.pace.staleAfterMs ? 'stale' : 'fresh'
  }

  function tell(): void {
    const rows = held?.slice.rows.count ?? 0
    const now = state()
    const to = now === 'fresh' && rows === 0 && !isRateCard(held, setting) ? 'empty' : now
    if (to === told) return
    const { id: upstream } = setting.entry
    onTransition({ upstream, scope: setting.scope.name, from: told, to, rows, ...problem })
    told = to
  }

  /** The only place where something else is held: what it takes is counted in the same step, and may have to go at once. */
  function hold(next: HeldSlice | undefined): void {
    held = next
    arm()
    share.holds(held?.slice)
  }

  function drop(): void {
    hold(undefined)
    store.remove(key())
    tell()
    onChange()
  }

  /** All upstreams' rows take too much memory together, and these most of it. */
  function evict(): void {
    problem = {
      reason: 'over_memory',
      message: "its rows gave way: they took more memory than anybody else's",
    }
    drop()
  }

  function arm(): void {
    cancelStale()
    cancelDrop()
    if (!held || isClosed) return
    const age = clock.now() - held.confirmedAt
    cancelStale = clock.after(setting.pace.staleAfterMs + 1 - age, tell)
    cancelDrop = clock.after(setting.pace.dropAfterMs - age, drop)
  }

  /** Under the id that the upstream has now. */
  const named = (one: HeldSlice) => withId(one, setting.entry.id)

  function accept(next: HeldSlice, isNewContent: boolean): void {
    const before = held?.slice // gone when it passed its cap while this refresh was under way
    const { feedVersion, pricingVersion, caughtAt } = next.slice
    if (caughtAt !== undefined && caughtAt !== before?.caughtAt)
      onTrouble(`${setting.entry.id}: ${TOKEN_LIE}`)
    const isNew = isNewContent || before === undefined
    const isRetold =
      feedVersion !== before?.feedVersion ||
      pricingVersion !== before?.pricingVersion ||
      !isDeepStrictEqual(next.slice.outages, before?.outages)
    if (isNew || isRetold) store.save(next, ownerOf(setting))
    else store.confirm(next)
    hold(named(next))
    if (isNew) onChange()
  }

  function settle(outcome: MirrorOutcome): void {
    answered = true
    if (outcome.kind === 'failed') {
      const { reason, message } = outcome
      failures += 1
      problem = { reason, message }
      // What one account meets there says nothing about the agent.
      const isPublic = setting.scope.name === PUBLIC
      if (isPublic && (reason === 'agent_error' || reason === 'protocol_error')) {
        setting.contact.doubt(reason === 'protocol_error')
      }
    } else {
      failures = 0
      problem = undefined
      if (outcome.kind === 'public')
        accept(rateCard(setting.entry, setting.scope.name, clock.now()), !isRateCard(held, setting))
      else accept(outcome.held, outcome.kind === 'replaced')
    }
    tell()
  }

  function schedule(ms: number): void {
    if (isClosed) return
    cancelAttempt()
    nextAttemptAt = clock.now() + ms
    cancelAttempt = clock.after(ms, refresh)
  }

  function scheduleNext(retryAfterMs: number | undefined): void {
    const { refreshMs } = setting.pace
    if (againSoon) schedule(Math.max(0, hurry.dueAt() - clock.now()))
    else if (failures > 0) schedule(backoffMs({ failures, refreshMs, random, retryAfterMs }))
    else schedule(jittered(refreshMs, random))
    againSoon = false
  }

  async function read({ scope, contact, introduction }: ScopeSetting): Promise<MirrorOutcome> {
    const speaking = await contact.dialect()
    if (speaking.kind === 'failed') return speaking
    const refreshIn = (dialect: Dialect) => whole.read((isWhole) => mirror.refresh(held, dialect, isWhole))
    if (scope.name !== PUBLIC) return refreshIn(speaking.value)
    const found = await refreshIntroduced({
      dialect: speaking.value,
      account: introduction,
      refresh: refreshIn,
    })
    if (found.dialect !== speaking.value) contact.correct(found.dialect)
    return found.outcome
  }

  async function refreshOnce(): Promise<void> {
    const asked = setting
    const begunAt = clock.now()
    const wasAwaited = isAwaited
    isAwaited = false
    const outcome = await read(asked).finally(() => share.gathers(0, 0))
    if (isClosed) return
    if (wasAwaited) hurry.made(clock.now() - begunAt)
    // Who was asked, or in whose name, is not the same any more: the answer is nobody's.
    if (isOther(asked, setting)) return scheduleNext(undefined)
    settle(outcome)
    scheduleNext(outcome.kind === 'failed' ? outcome.retryAfterMs : undefined)
  }

  function refresh(): void {
    if (refreshing || isClosed) return
    cancelAttempt()
    refreshing = refreshOnce()
      .catch((error: Error) => {
        // A bug of ours, met in one upstream's data, must cost no other upstream anything.
        onTrouble(`${setting.entry.id}: the refresh broke: ${error.stack ?? error.message}`)
        failures += 1
        scheduleNext(undefined)
      })
      .finally(() => {
        refreshing = undefined
      })
  }

  /** Refreshes now or when its turn comes, once more when a refresh is under way. Before the first there is nothing to hurry. */
  function refreshSoon(): void {
    if (!isOpen) return
    isAwaited = true
    const dueAt = hurry.asked()
    if (dueAt === undefined) return
    if (refreshing) againSoon = true
    else schedule(dueAt - clock.now())
  }

  /** Or may, for all that is known: its first answer is still on the way. One in trouble is asked again when its time comes. */
  function livesByQuestions(): boolean {
    if (problem && problem.reason !== 'not_enumerable') return false
    return held === undefined || held.slice.mode === 'enumerated'
  }

  /** What it can be asked may be another thing. Until that is known, a refresh is awaited. */
  function questionsMoved(isNews: () => Promise<boolean>): void {
    if (!isOpen) return
    checks += 1
    isNews()
      .catch(() => true)
      .then((is) => {
        checks -= 1
        if (is) refreshSoon()
      })
  }

  /** Takes up new settings and goes on with what is held, unless it was read for another account. */
  function update(next: ScopeSetting): void {
    const before = setting
    setting = next
    if (needsAnother(before, next)) mirror = mirrorFor(next)
    const kept = takenOver(held, before, next)
    if (held && !kept) answered = false
    const isNews = held?.slice.upstream !== (kept && next.entry.id)
    hold(kept && named(kept))
    if (isNews) onChange()
    if (isOther(before, next) || !isDeepStrictEqual(next.entry.seeds, before.entry.seeds)) refreshSoon()
    else if (next.pace.refreshMs !== before.pace.refreshMs && isOpen && !refreshing && failures === 0) {
      schedule(Math.min((nextAttemptAt ?? 0) - clock.now(), jittered(next.pace.refreshMs, random)))
    }
    tell()
  }

  return {
    name: () => setting.scope.name,
    scope: () => setting.scope,
    /** Takes up what an earlier process kept, then keeps it current. */
    async start(): Promise<void> {
      const asked = setting
      const saved = takenOver(await store.load(key(), ownerOf(asked)), asked, setting)
      if (isClosed) return
      isOpen = true
      if (saved && clock.now() - saved.confirmedAt <= setting.pace.dropAfterMs) {
        // Whether prices for accounts were among its rows was another configuration's to say.
        const isAnothers = setting.scope.name === PUBLIC && saved.cacheScope === 'account'
        hold(named(isAnothers ? untokened(saved) : saved))
        onChange()
      }
      tell()
      refresh()
    },
    held: () => held,
    /** What is held says that the public rows are this scope's too. */
    isRateCard: () => isRateCard(held, setting),
    update,
    refreshSoon,
    livesByQuestions,
    questionsMoved,
    /** The next reading is a whole one, and begins soon. */
    refreshWhole(): void {
      whole.call()
      refreshSoon()
    },
    /** A probe sooner than the schedule says: calls began to fail. */
    probeSoon(): void {
      if (isOpen && !refreshing) {
        schedule(backoffMs({ failures: 1, refreshMs: setting.pace.refreshMs, random }))
      }
    },
    nextAttemptAt: () => nextAttemptAt,
    status(): ScopeStatus {
      const { scope, entry, contact } = setting
      const protocol = contact.protocol()
      const accountPrices =
        scope.name === PUBLIC ? contact.accountPrices(held?.cacheScope === 'account') : undefined
      return {
        id: entry.id,
        url: shownUrl(entry.url),
        agentUrl: entry.agentUrl,
        name: entry.name,
        scope: scope.name,
        rateCard: isRateCard(held, setting),
        state: state(),
        listings: held?.slice.rows.count ?? 0,
        dropped: held?.slice.dropped ?? {},
        ...(protocol && { protocol }),
        ...(accountPrices && { accountPrices }),
        ...(held?.slice.outages && { outages: held.slice.outages }),
        ...(held?.slice.limitedAt !== undefined && { limitedAt: held.slice.limitedAt }),
        ...(held && isDistrusted(held.slice, clock.now()) && { caughtAt: held.slice.caughtAt }),
        ...(held && {
          mode: held.slice.mode,
          walkedAt: held.slice.walkedAt,
          confirmedAt: held.confirmedAt,
        }),
        ...(problem && { problem }),
        ...(nextAttemptAt !== undefined && { nextAttemptAt }),
        ...((isAwaited || checks > 0) && { awaited: true }),
      }
    },
    /** Ends it, once what is under way has ended. What was saved stays. */
    async close(): Promise<void> {
      isClosed = true
      cancelAttempt()
      cancelStale()
      cancelDrop()
      share.holds(undefined)
      await refreshing
    },
  }
}

export type KeptScope = ReturnType<typeof createScope>
