/**
 * Runs the program until its input ends, as it does when whoever builds is killed, and keeps then what the engine made of it
 * (start.js). `bundle.js` starts this.
 */
import { compiled } from './dist/program/start.js'

const program = compiled(`${import.meta.dirname}/dist/program/program.cjs`)
process.on('exit', program.keep)
process.stdin.once('end', () => process.kill(process.pid, 'SIGTERM')).resume()
process.stdin.unref() // a program that fails ends by itself
program.run().commandLine()
