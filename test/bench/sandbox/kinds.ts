import { type RunTool, runTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { chooseSandbox } from '../../../bench/sandbox/sandbox.ts'

/** The real tools, but whoever makes namespaces by privilege, or at all, is refused. */
export const refusing =
  (what: 'root' | 'both'): RunTool =>
  (command, args, options) => {
    const asUser = args.includes('--user')
    if (command !== 'setpriv' || args[0] === '-V' || (what === 'root' && asUser))
      return runTool(command, args, options)
    const words = `unshare: no, not ${asUser ? 'to a user' : 'to you'}`
    return Promise.reject(new ToolError(`setpriv: ${words}`, 'failed', `${words}\nmore`))
  }

/** What is chosen here, and what would be if privileges were none. */
export const choices = {
  here: await chooseSandbox(),
  asUser: await chooseSandbox(refusing('root')),
}

/** Both kinds of sandbox, each with why it can't be had here; '' when it can. */
export const kinds = [
  {
    kind: 'root',
    why: choices.here.kind === 'root' ? '' : `needs privileges: ${choices.here.why}`,
  },
  { kind: 'user', why: choices.asUser.why },
] as const
