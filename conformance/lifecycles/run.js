/**
 * Checks of our own for what releases ask beyond the storyboards that the SDK carries: a lifecycle is a list of steps over
 * one transport. Every answer that a step gets is also checked with the schemas of its release
 * (test/support/adcp-answers.ts).
 */
import { AssertionError } from 'node:assert'
import { answerChecks } from '../../dist/test/support/adcp-answers.js'
import { hasSchemasOf, SCHEMA_RELEASES } from '../../dist/test/support/adcp-schema.js'
import { failed, passed } from '../outcome.js'
import { caller } from '../wire.js'
import { ACTIVATION } from './activation.js'
import { CAPABILITIES } from './capabilities.js'
import { ENVELOPE } from './envelope.js'
import { IDEMPOTENCY } from './idempotency.js'
import { NOTIFICATION_CONFIGS } from './notification-configs.js'
import { ANSWERS_OF_RELEASES } from './releases.js'
import { VERSIONS } from './versions.js'
import { WHOLESALE_FEED } from './wholesale.js'

const LIFECYCLES = [
  VERSIONS,
  ANSWERS_OF_RELEASES,
  CAPABILITIES,
  ENVELOPE,
  WHOLESALE_FEED,
  IDEMPOTENCY,
  NOTIFICATION_CONFIGS,
  ACTIVATION,
].flat()

async function runOne({ steps }, world) {
  const told = []
  const state = {}
  for (const [name, step] of Object.entries(steps)) {
    try {
      await step(world, state)
      told.push(passed(name))
    } catch (error) {
      const isDifference = error instanceof AssertionError && error.operator !== '=='
      const found = isDifference
        ? `: ${JSON.stringify(error.actual)}, not ${JSON.stringify(error.expected)}`
        : ''
      told.push(failed(name, `${error.message.split('\n')[0].replace(/:$/, '')}${found}`))
    }
  }
  return told
}

/** One lifecycle alone, whose answers no schema at hand describes; `more` is what its steps need beside callers. */
export async function runLifecycle(lifecycle, url, transport, keys, more) {
  const { name, release } = lifecycle
  const world = {
    call: caller(url, transport, keys.own),
    other: caller(url, transport, keys.other),
    transport,
  }
  return {
    part: 'lifecycles',
    release,
    transport,
    name,
    steps: await runOne(lifecycle, { ...world, ...more }),
  }
}

/** `keys`: the caller's and another tenant's. */
export async function runLifecycles(url, transport, keys) {
  const atHand = SCHEMA_RELEASES.filter(hasSchemasOf)
  const faults = new Map(atHand.map((schemas) => [schemas, []]))
  const answers = new Map(atHand.map((schemas) => [schemas, 0]))
  const checked = (key) => {
    const call = caller(url, transport, key)
    return async (task, args) => {
      const answer = await call(task, args)
      for (const { schemas, faultOf } of answerChecks(answer.adcp_version)) {
        answers.set(schemas, answers.get(schemas) + 1)
        const fault = faultOf(task, answer)
        if (fault) faults.get(schemas).push(fault)
      }
      return answer
    }
  }
  const world = { call: checked(keys.own), other: checked(keys.other), transport }
  const rows = []
  for (const lifecycle of LIFECYCLES) {
    const { name, release } = lifecycle
    rows.push({ part: 'lifecycles', release, transport, name, steps: await runOne(lifecycle, world) })
  }
  for (const [release, found] of faults) {
    const steps = [
      found.length === 0 ? passed('every answer is valid') : failed('every answer is valid', found[0]),
    ]
    rows.push({
      part: 'schemas',
      release,
      transport,
      name: 'schemas',
      steps,
      note: `${answers.get(release)} answers`,
    })
  }
  return rows
}
