/**
 * Runs a file of the program, with what the engine made of its text when it was built: to make that again would take a
 * quarter of a start. Where it is missing, or damaged, or another release of Node made it, the text is compiled as ever
 * (docs/decisions.md#what-is-loaded-when). `bundle.js` puts this beside the program.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { constants, Script } from 'node:vm'
import { crc32 } from 'node:zlib'

const CHECKSUM_BYTES = 4

/** Of a text: the engine compares lengths alone, and would run what it made of another. */
const placeOf = (file, text) => `${file}.${crc32(text).toString(16)}-${process.version}-${process.arch}.cache`

/** What was kept there; the engine would not survive it with one bit changed. */
function keptAt(place) {
  try {
    const kept = readFileSync(place)
    const made = kept.subarray(CHECKSUM_BYTES)
    return crc32(made) === kept.readUInt32LE(0) ? made : undefined
  } catch {
    return undefined
  }
}

/** A file of the program, before it runs. */
export function compiled(file) {
  const text = readFileSync(file)
  const place = placeOf(file, text)
  // What is built is ASCII alone.
  const wrapped = `(function (exports, require, module, __filename, __dirname) {${text.latin1Slice()}\n})`
  const script = new Script(wrapped, {
    ...{ filename: file, cachedData: keptAt(place) },
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  })
  return {
    script,
    /** Gives what the file exports. */
    run() {
      // The engine forgets who loads for a script that it kept: what is named only when it is loaded, this file loads.
      const module = { exports: {}, importNamed: (url) => import(url) }
      script.runInThisContext()(module.exports, createRequire(file), module, file, dirname(file))
      return module.exports
    },
    /** For whoever compiles this file next: the functions, too, that have run by now. */
    keep() {
      const made = script.createCachedData()
      const checksum = Buffer.alloc(CHECKSUM_BYTES)
      checksum.writeUInt32LE(crc32(made))
      writeFileSync(place, Buffer.concat([checksum, made]))
    },
  }
}

/**
 * Runs the file of that name beside this one, and gives what it exports. With `node --enable-source-maps` Node's own loader does,
 * because that one reads the maps.
 */
export function start(name) {
  const file = fileURLToPath(new URL(`./${name}.cjs`, import.meta.url))
  return process.sourceMapsEnabled ? createRequire(file)(file) : compiled(file).run()
}
