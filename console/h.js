// What every part of the page draws with: components as tagged templates.
import htm from './lib/htm.js'
import { h } from './lib/preact.js'

export const html = htm.bind(h)
