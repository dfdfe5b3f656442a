/** Where a running server is asked, in one form for every command: its address, with or without `/mcp`. */
import { loadPlace } from '../config/load.js'
import { CommandFailure, EXIT } from './terminal.js'

const DEMO = { buyer: 'demo-buyer-key', operator: 'demo-operator-key' } // config/sandbox.yaml; public, and good for the sandbox only
const EVERYWHERE: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }

export type Target = {
  /** The configuration of the server. */
  config: string
  /** `--url`; default: where that server listens on this machine. */
  url: string | undefined
  token: string | undefined
}

/** `base`: without a slash at its end. `token`: as given, or the demo world's for this role. */
export type Address = { base: string; token: string | undefined }

/** Throws `ConfigError` when there is no such file, and `CommandFailure` for an address that is none. */
export async function addressOf({ config, url, token }: Target, role: keyof typeof DEMO): Promise<Address> {
  const { host, port, sandbox } = await loadPlace(config, process.env)
  const base = (url ?? `http://${EVERYWHERE[host] ?? host}:${port}`).replace(/\/(mcp\/?)?$/, '')
  if (!/^https?:/.test(base) || !URL.canParse(base)) {
    throw new CommandFailure(`--url: expected an http or https url, got ${base}`, EXIT.usage)
  }
  return { base, token: token ?? (sandbox ? DEMO[role] : undefined) }
}
