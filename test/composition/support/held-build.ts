/** Loaded into a program before it starts: one of its orders to builders is held back for ever, the first being number 0. */
import { watchThreads } from './threads.js'

const held = watchThreads().holdNext('build-worker', Number(process.env.HELD_ORDER))
void held.then(() => console.log('an order to a builder is held back'))
