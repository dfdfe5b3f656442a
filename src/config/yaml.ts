/**
 * The text of a configuration file as YAML, of which JSON is a part. What is wrong with it is told in words of ours: those of
 * the parser quote the text, and what breaks it may be a secret that was written without quotes.
 */
import { isMap, isNode, isScalar, isSeq, LineCounter, parseDocument, visit } from 'yaml'
import type { ConfigPath } from './schema.js'

type YamlDocument = ReturnType<typeof parseDocument>
type Code = YamlDocument['errors'][number]['code']

const INDICATOR = 'a text that begins with a character of YAML, or goes on behind its end, without quotes'
const TWICE = 'two anchors (&name) or tags (!name) of one value'

/** What stands there, by the code that the parser has for it. */
const FAULTS: Partial<Record<Code, string>> = {
  BAD_ALIAS: 'an anchor (&name) or an alias (*name) without a valid name',
  BAD_DIRECTIVE: 'a directive (%) that YAML does not have',
  BAD_DQ_ESCAPE: 'a backslash that escapes nothing, between double quotes',
  BAD_INDENT: 'a line that is indented otherwise than what it belongs to',
  BAD_SCALAR_START: INDICATOR,
  BLOCK_AS_IMPLICIT_KEY: 'a colon where the value of another key stands',
  BLOCK_IN_FLOW: 'a list or a mapping over lines, between brackets or braces',
  DUPLICATE_KEY: 'a key that stands twice in its mapping',
  MISSING_CHAR: 'a bracket, a quote, a comma or a colon too few',
  MULTILINE_IMPLICIT_KEY: 'a key over several lines, or a colon too few',
  MULTIPLE_ANCHORS: TWICE,
  MULTIPLE_DOCS: 'several documents',
  MULTIPLE_TAGS: TWICE,
  TAB_AS_INDENT: 'a tab before what stands in the line',
  TAG_RESOLVE_FAILED: 'a tag (!name) that is not known, or is not the one of its value',
  UNEXPECTED_TOKEN: INDICATOR,
}

type YamlFault = { line?: number | undefined; expected: string; got: string }

/** `faults`: why there is no content; empty when there is. */
export type Yaml = {
  content: unknown
  faults: readonly YamlFault[]
  /** Where the setting stands, or the nearest one around it. */
  lineOf(steps: ConfigPath): number | undefined
}

/** Aliases that lead nowhere, or to what holds them, and keys that are no names. */
function nodeFaults(document: YamlDocument, lineAt: (node: unknown) => number | undefined): YamlFault[] {
  const anchored = new Map<string, unknown>()
  const faults: YamlFault[] = []
  visit(document, {
    Alias(_key, alias, around) {
      const meant = anchored.get(alias.source)
      if (around.some((one) => one === meant)) {
        const expected = 'aliases (*name) of what does not hold them'
        faults.push({ line: lineAt(alias), expected, got: 'one inside of its own anchor' })
      }
      if (meant !== undefined) return
      const expected = 'aliases (*name) of anchors (&name) that stand before them'
      faults.push({ line: lineAt(alias), expected, got: 'another; a text that begins with * needs quotes' })
    },
    Pair(_key, { key }) {
      if (key === null || isScalar(key)) return
      const expected = 'names in front of colons'
      faults.push({ line: lineAt(key), expected, got: 'a list, a mapping or an alias' })
    },
    Value(_key, node) {
      if (node.anchor !== undefined) anchored.set(node.anchor, node)
    },
  })
  return faults
}

/** An empty file was probably cut off, and does not mean all defaults. */
function contentOf(document: YamlDocument): Pick<Yaml, 'content' | 'faults'> {
  try {
    const content: unknown = document.toJS()
    const expected = 'settings, or {} for the defaults alone'
    return { content, faults: content === null ? [{ expected, got: 'nothing' }] : [] }
  } catch {
    const expected = 'aliases (*name) of which a reader can follow all'
    return { content: undefined, faults: [{ expected, got: 'too many' }] }
  }
}

export function readYaml(text: string): Yaml {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'error' })
  const lineAt = (node: unknown) =>
    isNode(node) && node.range ? lines.linePos(node.range[0]).line : undefined

  function lineOf(steps: ConfigPath): number | undefined {
    let node: unknown = document.contents
    let line: number | undefined
    for (const step of steps) {
      const pair = isMap(node)
        ? node.items.find(({ key }) => isScalar(key) && String(key.value) === step)
        : undefined
      node = pair?.value ?? (isSeq(node) ? node.items[Number(step)] : undefined)
      line = lineAt(node) ?? lineAt(pair?.key) ?? line
    }
    return line
  }

  const broken = document.errors.map(({ code, pos: [start] }) => ({
    line: lines.linePos(start).line,
    expected: 'YAML or JSON',
    got: FAULTS[code] ?? 'something else',
  }))
  const faults = broken.length > 0 ? broken : nodeFaults(document, lineAt)
  return { ...(faults.length > 0 ? { content: undefined, faults } : contentOf(document)), lineOf }
}
