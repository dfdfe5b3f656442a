/** Where an embedded storage lies on disk, for commands that look into it beside a running server. */
import { resolve } from 'node:path'

/** Undefined for a shared database. */
export function storageFolder(url: string): string | undefined {
  return url.startsWith('file:') ? resolve(url.slice('file:'.length).replace(/^\/\/(?=\/)/, '')) : undefined
}
