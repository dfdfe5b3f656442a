/**
 * Loaded before a process under test (`NODE_OPTIONS=--import`): its wall clock is wrong by TEST_AHEAD_MS, and what it connects
 * to sees it come from TEST_ADDRESS, so that a test can count what one replica of several asks, and cut it off.
 */
import net from 'node:net'

const ahead = Number(process.env.TEST_AHEAD_MS ?? 0)
const localAddress = process.env.TEST_ADDRESS

const RealDate = Date
class WrongDate extends RealDate {
  constructor(...given: unknown[]) {
    // Without an argument it is now; a date of its own is what it says.
    super(...((given.length === 0 ? [RealDate.now() + ahead] : given) as [number]))
  }
  static override now(): number {
    return RealDate.now() + ahead
  }
}
globalThis.Date = WrongDate as DateConstructor

const { prototype } = net.Socket
const connect = prototype.connect as (this: net.Socket, ...args: unknown[]) => net.Socket

/** As `net.connect` and libraries call it: options, options and a listener in an array, or port and host. */
prototype.connect = function connectFrom(this: net.Socket, ...args: unknown[]): net.Socket {
  const [first, second] = args
  if (typeof first === 'number') return connect.call(this, { port: first, host: second, localAddress })
  const options = (Array.isArray(first) ? first[0] : first) as { port?: number; localAddress?: string }
  if (options?.port !== undefined) options.localAddress ??= localAddress as string
  return connect.apply(this, args)
} as typeof prototype.connect
