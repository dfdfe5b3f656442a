import type { ChildProcess } from 'node:child_process'

const children = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

/** Sees to it that a process ends no later than this one, also where something throws before the child is ended. */
export function ours<C extends ChildProcess>(child: C): C {
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}
