/**
 * Durable named bytes: where slices, the roster and provider documents outlive the process.
 * The store room implements it (files when embedded, rows in PostgreSQL when shared).
 */
export type Blobs = {
  /** The parts as they were written, or undefined when there is no such blob or it is damaged. */
  read(name: string): Promise<Uint8Array[] | undefined>
  /** Replaces the blob whole or not at all. Rejects when the storage cannot take it. */
  write(name: string, parts: readonly Uint8Array[]): Promise<void>
  remove(name: string): Promise<void>
  /** Names that start with `prefix`, sorted. */
  list(prefix: string): Promise<string[]>
}
