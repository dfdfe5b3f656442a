/** Runs the program, and keeps at its end what the engine made of it (start.js). `bundle.js` starts this. */
import { compiled } from './dist/program/start.js'

const program = compiled(`${import.meta.dirname}/dist/program/program.cjs`)
process.on('exit', program.keep)
program.run().commandLine()
