/** Writes the drawing of the rooms into docs/house.md: `npm run build && node dist/test/house/support/draw.js`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawing, ROOT } from './graph.js'
import { ROOMS } from './rooms.js'

const page = join(ROOT, 'docs/house.md')
const text = readFileSync(page, 'utf8')
writeFileSync(
  page,
  text.replace(/```\nmain [\s\S]*?\n```/, () => `\`\`\`\n${drawing(ROOMS)}\n\`\`\``),
)
