import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { type RunTool, ToolError } from '../../src/kernel/run-tool.ts'

/**
 * Runs tools in a network namespace of their own, by one shell that lives in it and takes
 * it along when it ends. A test has grown so large that to start a program costs it 10 ms
 * of CPU time; a shell does it in one. Options other than `input` are not for it.
 * With a user namespace, too, it is as in a container that may not do all that root may.
 */
export const makeNetnsShell = async (inUserNamespace = false): Promise<RunTool> => {
  const directory = await mkdtemp(join(tmpdir(), 'usher-shell-'))
  const flags = inUserNamespace ? ['--net', '--user', '--map-root-user'] : ['--net']
  const shell = spawn('unshare', [...flags, 'sh'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      ...process.env,
      LC_ALL: 'C',
      PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
    },
  })
  const waiting = new Map<string, (code: number) => void>()
  const ended = new Promise(resolve => shell.once('close', resolve))
  createInterface(shell.stdout).on('line', line => {
    const [id = '', code = ''] = line.split(' ')
    waiting.get(id)?.(Number(code))
    waiting.delete(id)
  })
  t.teardown(async () => {
    shell.stdin.end()
    await ended
    await rm(directory, { recursive: true })
  })
  let calls = 0
  return async (command, args, { input = '' } = {}) => {
    const id = String(calls++)
    const file = (kind: string): string => join(directory, `${id}.${kind}`)
    const from = input === '' ? '/dev/null' : file('in')
    if (input !== '') await writeFile(from, input)
    const words = [command, ...args].map(quoted).join(' ')
    const code = await new Promise<number>(resolve => {
      waiting.set(id, resolve)
      const redirected = `${words} <${from} >${file('out')} 2>${file('err')}`
      shell.stdin.write(`{ ${redirected}; echo ${id} $?; } &\n`)
    })
    const [out, err] = await Promise.all(
      ['out', 'err'].map(kind => readFile(file(kind), 'utf8')),
    )
    if (code !== 0) throw failed([command, ...args].join(' '), code, err ?? '')
    return out ?? ''
  }
}

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

const failed = (call: string, code: number, stderr: string): ToolError => {
  const text = `${call}: ${stderr.trim().split('\n')[0]} (exit code ${code})`
  return new ToolError(text, code === 127 ? 'missing' : 'failed', stderr)
}
