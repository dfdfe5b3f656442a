/** `tributary refresh UPSTREAM`: has a running server read an upstream in full now. */
import { askServer, type Server } from './operator.js'

export async function refreshUpstream(
  command: Server & { upstream: string; out: NodeJS.WriteStream },
): Promise<void> {
  const { upstream, out } = command
  await askServer(command, `/refresh?${new URLSearchParams({ upstream })}`, 'POST')
  out.write(`${upstream} is being read in full; tributary explain ${upstream} shows how it went\n`)
}
