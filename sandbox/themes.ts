/** What the demo market sells, theme by theme: data in `themes/`, one file a theme, read at the start. */
import { readFileSync } from 'node:fs'
import type { Theme } from './vocabulary.js'

/** Compiled code lies in `dist/sandbox`, the data beside the sources. */
const FOLDER = new URL('../../sandbox/themes/', import.meta.url)

function read(name: string): Theme {
  return JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8')) as Theme
}

/** Of the four data providers: cars, groceries and health, business and money, opinions. */
export const auto = read('auto')
export const grocery = read('grocery')
export const health = read('health')
export const business = read('business')
export const money = read('money')
export const opinions = read('opinions')

/** Of the agents themselves: travel, viewing, sport, shopping, blends, lookalikes. */
export const travel = read('travel')
export const streaming = read('streaming')
export const sport = read('sport')
export const shopping = read('shopping')
export const blends = read('blends')
export const lookalikes = read('lookalikes')
