/**
 * Keeps what one upstream offers to one scope (to everybody, or to one account) current. Both follow the same rules:
 * read on a schedule, kept through failures and restarts until a cap, then dropped.
 */
import { isDeepStrictEqual } from 'node:util'
import type { SignalRef } from '../../adcp/signal.js'
import { backoffMs, type Clock, jittered } from '../../net/clock.js'
import type { Dialect } from '../agent/dialect.js'
import type { Slice } from '../rows/slice.js'
import type { Turn, Turns } from '../rows/storage.js'
import type { QuestionsAsked } from '../walk/enumerate.js'
import type { Governor } from '../walk/governor.js'
import { createHurry, type Hurry } from './hurry.js'
import { createAgeing, lasting } from './lasting.js'
import { type HeldSlice, isOver, type MirrorOutcome } from './mirror.js'
import { createFollowing, createWholeReading, type Readings, turnOf } from './readings.js'
import {
  isNews,
  isOther,
  isRateCard,
  isRetold,
  mirrorOf,
  needsAnother,
  ownerOf,
  PUBLIC,
  rateCard,
  refreshIntroduced,
  type ScopeSetting,
  takenOver,
  usedAgain,
  withId,
} from './scope-setting.js'
import {
  createStatus,
  type ScopeState,
  type ScopeStatus,
  TOKEN_LIE,
  type Transition,
} from './scope-status.js'
import type { SliceStore } from './slice-store.js'

export type ScopeOptions = {
  setting: ScopeSetting
  store: SliceStore
  /** Which scopes this process reads. */
  turns: Turns
  /** What other processes said about the scopes that they read. */
  readings: Readings
  governor: Governor
  clock: Clock
  random(): number
  referencesFor(agentUrl: string): readonly SignalRef[] | Promise<readonly SignalRef[]>
  namesFor(agentUrl: string): readonly string[] | Promise<readonly string[]>
  asked: QuestionsAsked
  /** What the upstream offers to everybody. */
  open(): Slice | undefined
  /** Called when what is held has changed or is gone. */
  onChange(): void
  onTransition(transition: Transition): void
  /** Receives messages that an operator should see at once. */
  onTrouble(message: string): void
}

/** Does nothing before `start`. */
export function createScope(options: ScopeOptions) {
  const { store, turns, readings, governor, clock, random, onChange, onTransition, onTrouble } = options
  let setting = options.setting
  const share = governor.share(setting.entry.agentUrl, evict)
  let held: HeldSlice | undefined
  let problem: ScopeStatus['problem']
  let failures = 0
  let answered = false
  let nextAttemptAt: number | undefined
  let cancelAttempt = () => {}
  let refreshing: Promise<void> | undefined
  const hurry = createHurry(clock)
  let [againSoon, isAwaited] = [false, false] // awaited: a requested refresh has not begun yet
  let checks = 0 // checks under way of whether something is new
  let [hadTurn, isOpen, isClosed] = [false, false, false] // open: the saved state has been loaded
  let told: ScopeState = 'starting'
  const statusOf = createStatus()

  const ageing = createAgeing({
    ...{ clock, setting: () => setting, held: () => held },
    ...{ onStale: tell, onOver: drop },
    onLess(left) {
      hold(left)
      onChange()
    },
  })
  const mirrorFor = (wanted: ScopeSetting) => mirrorOf(wanted, { ...options, share })
  let mirror = mirrorFor(setting)

  const key = () => ({ agentUrl: setting.entry.agentUrl, scope: setting.scope.name })
  const whole = createWholeReading({ store, key })
  const turn = (): Turn | undefined => turns.turn(turnOf(setting.entry.agentUrl))

  function state(now = clock.now()): ScopeStatus['state'] {
    if (!held) return answered ? 'absent' : 'starting'
    return problem || now - held.confirmedAt > setting.pace.staleAfterMs ? 'stale' : 'fresh'
  }

  function tell(): void {
    const rows = held?.slice.rows.count ?? 0
    const now = state()
    const to = now === 'fresh' && rows === 0 && !isRateCard(held, setting) ? 'empty' : now
    if (to === told) return
    onTransition({ upstream: setting.entry.id, scope: setting.scope.name, from: told, to, rows, ...problem })
    told = to
  }

  /**
   * The only place that replaces what is held, under the current id of the upstream: its memory is counted in the same step, and
   * may have to go at once.
   */
  function hold(next: HeldSlice | undefined): void {
    held = next && withId(next, setting.entry.id)
    if (!held) following.forget()
    ageing.watch()
    share.holds(held?.slice)
  }

  function drop(): void {
    hold(undefined)
    const under = turn()
    if (under) store.remove(key(), under)
    tell()
    onChange()
  }

  /** The rows of all upstreams take too much memory, and these take most of it. */
  function evict(): void {
    const message = "its rows gave way: they took more memory than anybody else's"
    problem = { reason: 'over_memory', message }
    drop()
  }

  function accept(next: HeldSlice, under: Turn): void {
    const before = held?.slice // undefined when it passed its cap during this refresh
    const { caughtAt } = next.slice
    if (caughtAt !== undefined && caughtAt !== before?.caughtAt)
      onTrouble(`${setting.entry.id}: ${TOKEN_LIE}`)
    const isNew = isNews(held, next, setting) // others' may have come meanwhile
    if (isNew || isRetold(before, next.slice)) store.save(next, ownerOf(setting), under)
    else store.confirm(next, ownerOf(setting), under)
    hold(next)
    if (isNew) onChange()
  }

  function settle(outcome: MirrorOutcome, under: Turn): void {
    answered = true
    following.settled(under, outcome.kind !== 'failed')
    if (outcome.kind === 'failed') {
      const { reason, message } = outcome
      failures += 1
      problem = { reason, message }
      // What one account meets there says nothing about the agent in general.
      if (setting.scope.name === PUBLIC) setting.contact.refused(reason)
    } else {
      failures = 0
      problem = undefined
      const card = () => rateCard(setting.entry, setting.scope.name, clock.now())
      accept(outcome.kind === 'public' ? card() : outcome.held, under)
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
    if (!following.hasRead()) await readings.heard() // what was saved before this turn
    const speaking = await contact.dialect()
    if (speaking.kind === 'failed') return speaking
    const dialect = speaking.value
    const usable = async () => held && (await lasting(held, clock.now(), setting))
    const refreshIn = (to: Dialect) => whole.read(async (all) => mirror.refresh(await usable(), to, all))
    if (scope.name !== PUBLIC) return refreshIn(dialect)
    const found = await refreshIntroduced({ dialect, account: introduction, refresh: refreshIn })
    if (found.dialect !== dialect) contact.correct(found.dialect)
    return found.outcome
  }

  function report(under: Turn, serves: number): void {
    const reading = {
      ...{ answered, failures, serves, ...(problem && { problem }) },
      ...(nextAttemptAt !== undefined && { nextAttemptAt }),
      ...(held && { confirmedAt: held.confirmedAt }),
    }
    store.report(key(), reading, under)
  }

  /** Takes in what was read, and schedules the next reading. */
  function conclude(outcome: MirrorOutcome, asked: ScopeSetting, under: Turn, serves: number): void {
    if (turn()?.epoch !== under.epoch) {
      if (turn()) schedule(0) // another process has read the scope meanwhile: its result counts
    } else if (isOther(asked, setting)) {
      scheduleNext(undefined) // the answer is of the agent or the account before
    } else {
      settle(outcome, under)
      scheduleNext(outcome.kind === 'failed' ? outcome.retryAfterMs : undefined)
      report(under, serves)
    }
  }

  async function refreshOnce(under: Turn): Promise<void> {
    const asked = setting
    const begunAt = hurry.begun()
    const serves = readings.asked(key())
    const wasAwaited = isAwaited
    isAwaited = false
    try {
      const outcome = await read(asked).finally(() => share.gathers(0, 0))
      if (wasAwaited) hurry.made(clock.now() - begunAt)
      if (!isClosed) conclude(outcome, asked, under, serves)
    } catch (error) {
      // A bug of ours that one upstream's data triggers must not affect others.
      onTrouble(`${setting.entry.id}: the refresh broke: ${(error as Error).stack}`)
      failures += 1
      scheduleNext(undefined)
    } finally {
      refreshing = undefined // in the step that schedules the next one, which whoever asks from now on schedules anew
    }
  }

  function refresh(): void {
    if (refreshing || isClosed) return
    cancelAttempt()
    const under = turn()
    if (under) refreshing = refreshOnce(under)
  }

  /** Refreshes now or at its turn, and once more when a refresh is under way. Does nothing before the first refresh. */
  function refreshSoon(how: Hurry = 'soon'): 'asked' | 'coming' {
    if (!isOpen) return 'asked'
    if (!turn()) {
      readings.ask(key(), how)
      return 'asked'
    }
    isAwaited = true
    const dueAt = how === 'whole' ? hurry.ordered() : hurry.asked()
    if (dueAt === undefined) return 'coming'
    if (refreshing) againSoon = true
    else schedule(dueAt - clock.now())
    return 'asked'
  }

  /** Whether it is read by questions; also true before its first answer. */
  function livesByQuestions(): boolean {
    if (problem && problem.reason !== 'not_enumerable') return false
    return held === undefined || held.slice.mode === 'enumerated'
  }

  /** What it can be asked may have changed. Until that is known, a refresh counts as awaited. */
  function questionsMoved(isNews: () => Promise<boolean>): void {
    if (!isOpen || !turn()) return
    checks += 1
    isNews()
      .catch(() => true)
      .then((is) => {
        checks -= 1
        if (is) refreshSoon()
      })
  }

  /** The next reading is a complete one, and begins soon. */
  function refreshWhole(): void {
    if (turn()) whole.call()
    refreshSoon('whole')
  }

  /** What was saved, as far as it may be shown. */
  async function saved(): Promise<HeldSlice | undefined> {
    const asked = setting
    const found = await store.load(key(), ownerOf(asked))
    const left = found && (await lasting(found, clock.now(), asked))
    return takenOver(left, asked, setting)
  }

  const following = createFollowing({
    ...{ key, store, readings, turn, clock, random },
    load: saved,
    held: () => held,
    /** Another process read it: takes over the outcome and the rows. */
    take(told, next) {
      if (isClosed || !isOpen) return
      if (!following.hasRead()) ({ answered, failures, problem, nextAttemptAt } = told)
      if (!next && held) drop()
      else if (next && next !== held) {
        const isNew = next.slice !== held?.slice
        hold(next)
        if (isNew) onChange()
      }
      tell()
    },
    hurry: { soon: refreshSoon, whole: refreshWhole },
  })

  /** Reads at the time that whoever read last has set, or at once where somebody has asked since that reading began. */
  function goOn(): void {
    const missed = turn() && readings.missed(key())
    if (missed === 'whole') whole.call()
    schedule(missed ? 0 : Math.max(0, (nextAttemptAt ?? 0) - clock.now()))
  }

  /** This process has become responsible for the scope, or no longer is. */
  function turnsChanged(): void {
    const has = turn() !== undefined
    if (!isOpen || isClosed || has === hadTurn) return
    hadTurn = has
    if (has && readings.of(key())?.distrusted) whole.call()
    if (!has) cancelAttempt()
    else if (!refreshing) goOn()
  }

  /** Applies new settings and keeps what is held, unless it was read for another account. */
  function update(next: ScopeSetting): void {
    const before = setting
    setting = next
    if (needsAnother(before, next)) mirror = mirrorFor(next)
    const kept = takenOver(held, before, next)
    if (held && !kept) answered = false
    const isMoved = held?.slice.upstream !== (kept && next.entry.id)
    hold(kept)
    if (isMoved) onChange()
    if (isOther(before, next) || !isDeepStrictEqual(next.entry.seeds, before.entry.seeds)) refreshSoon()
    else if (next.pace.refreshMs !== before.pace.refreshMs && isOpen && !refreshing && failures === 0) {
      schedule(Math.min((nextAttemptAt ?? 0) - clock.now(), jittered(next.pace.refreshMs, random)))
    }
    tell()
  }

  return {
    scope: () => setting.scope,
    /** Loads what an earlier process kept, then keeps it current. */
    async start(): Promise<void> {
      const before = readings.of(key()) // what is read below is at least as new
      const found = await saved()
      if (isClosed) return
      isOpen = true
      if (found && !isOver(found.confirmedAt, clock.now(), setting.pace.dropAfterMs)) {
        hold(usedAgain(found, setting))
        onChange()
      }
      hadTurn = turn() !== undefined
      following.begin(held && before?.slice)
      const told = readings.of(key())
      if (told) following.take(told)
      tell()
      // Rows that were told of and cannot be had, as after a restore without them, are read when it is this one's turn.
      const isLacking = told?.confirmedAt !== undefined && !held
      if (told?.nextAttemptAt === undefined || isLacking) refresh()
      else goOn()
    },
    turnsChanged,
    /** Resolves when what other processes told so far is loaded, or cannot be for now. */
    loaded: following.loaded,
    held: () => held,
    /** Whether the public rows are this scope's rows, too. */
    isRateCard: () => isRateCard(held, setting),
    update,
    refreshSoon,
    livesByQuestions,
    questionsMoved,
    refreshWhole,
    /** Reads sooner than scheduled, because calls have begun to fail. */
    probeSoon(): void {
      const { refreshMs } = setting.pace
      if (isOpen && !refreshing) schedule(backoffMs({ failures: 1, refreshMs, random }))
    },
    nextAttemptAt: () => nextAttemptAt,
    status(): ScopeStatus {
      const awaited = isAwaited || checks > 0
      const now = clock.now()
      return statusOf(setting, held, { state: state(now), problem, nextAttemptAt, awaited }, now)
    },
    /** Ends it after what is under way has ended. What was saved is kept. */
    async close(): Promise<void> {
      isClosed = true
      for (const end of [cancelAttempt, ageing.stop]) end()
      share.holds(undefined)
      await refreshing
      await following.close()
    },
  }
}

export type KeptScope = ReturnType<typeof createScope>
