/** Which file of `src` imports which, the rooms that they lie in, and a drawing of the rooms. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../../../..')
export const SOURCES = join(ROOT, 'src')

export type Import = { file: string; specifier: string; target: string | undefined }

/** The room of a file: its first folder; `main` for what lies beside the rooms. */
export const roomOf = (path: string) => (path.includes(sep) ? (path.split(sep)[0] as string) : 'main')

/** Every source file, by its path below `src`. */
export function sourceFiles(): string[] {
  const entries = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
  return entries.filter((entry) => entry.endsWith('.ts')).sort()
}

export const textOf = (file: string) => readFileSync(join(SOURCES, file), 'utf8')

/** Imports of one file; `target` is the imported file below `src`, undefined for what is not ours. */
export function importsOf(file: string): Import[] {
  const found = textOf(file).matchAll(/\b(?:from|import)\s*\(?\s*'([^']+)'/g)
  return [...found].map(([, specifier = '']) => {
    const path = resolve(SOURCES, dirname(file), specifier).replace(/js$/, 'ts')
    const target = specifier.startsWith('.') ? relative(SOURCES, path) : undefined
    return { file, specifier, target }
  })
}

/** Who imports whom, where `nameOf` is what files are gathered by: their room, their folder, or themselves. */
export function edges(nameOf: (file: string) => string): Map<string, Set<string>> {
  const graph = new Map<string, Set<string>>()
  for (const file of sourceFiles()) {
    const from = nameOf(file)
    const to = graph.get(from) ?? new Set()
    graph.set(from, to)
    for (const { target } of importsOf(file)) {
      if (target === undefined || target.startsWith('..')) continue
      if (nameOf(target) !== from) to.add(nameOf(target))
    }
  }
  return graph
}

/** One way round for each circle, as `a -> b -> a`; none is what a graph should have. */
export function circles(graph: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const done = new Set<string>()
  const found: string[] = []
  function walk(at: string, way: readonly string[]): void {
    if (way.includes(at)) found.push([...way.slice(way.indexOf(at)), at].join(' -> '))
    if (way.includes(at) || done.has(at)) return
    for (const next of [...(graph.get(at) ?? [])].sort()) walk(next, [...way, at])
    done.add(at)
  }
  for (const name of [...graph.keys()].sort()) walk(name, [])
  return found
}

/** Everything that a room stands on, directly or by what it imports. */
function below(graph: ReadonlyMap<string, ReadonlySet<string>>, room: string): Set<string> {
  const all = new Set<string>()
  const open = [...(graph.get(room) ?? [])]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (all.has(next)) continue
    all.add(next)
    open.push(...(graph.get(next) ?? []))
  }
  return all
}

/**
 * The rooms from the one that nobody imports down to those that import nothing, each with the rooms right below it: those
 * that it imports and that no other room it imports stands on.
 */
export function drawing(rooms: readonly string[]): string {
  const graph = edges(roomOf)
  const width = Math.max(...rooms.map((room) => room.length))
  const lines = [...rooms].reverse().map((room) => {
    const own = [...(graph.get(room) ?? [])]
    const beneath = own.filter((one) => !own.some((other) => below(graph, other).has(one)))
    const ordered = beneath.sort((one, other) => rooms.indexOf(other) - rooms.indexOf(one))
    return ordered.length === 0 ? room : `${room.padEnd(width)}  ->  ${ordered.join(', ')}`
  })
  return lines.join('\n')
}
