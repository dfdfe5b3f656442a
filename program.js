/** What the installed program is asked for: its command line, or a mirror. `bundle.js` starts here. */
export const commandLine = () => import('./dist/src/main.js')
export const mirror = () => import('./dist/src/mirror/mirror.js')
