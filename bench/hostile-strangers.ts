/** The strangers of `bench/hostile.ts`, in a process of their own: making a bomb is work too. */
import { corpusOf } from '../test/hostile/support/corpus.js'
import { startStrangers } from '../test/hostile/support/stranger.js'

const { origin } = await startStrangers(corpusOf())
console.log(origin)
