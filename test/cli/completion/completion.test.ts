import t from 'tap'
import { bashScript } from '../../../src/cli/completion/bash.ts'
import { fishScript } from '../../../src/cli/completion/fish.ts'
import { commandLines } from '../../../src/cli/completion/vocabulary.ts'
import { zshScript } from '../../../src/cli/completion/zsh.ts'
import { main } from '../../../src/cli/dispatch.ts'
import { quoted } from '../../../src/cli/io.ts'
import { commandNames } from '../../../src/config/commands.ts'
import { rowsOf } from '../../../src/config/options.ts'
import { keptIo } from '../../support/kept-io.ts'

const usher = async (...args: string[]) => {
  const { io, printed } = keptIo()
  const code = await main(args, io)
  return { code, ...printed }
}

t.test('every command and every flag that does something is there', async t => {
  const lines = commandLines()
  t.strictSame(
    lines.map(({ name }) => name),
    [...commandNames, 'help'],
  )
  for (const name of commandNames) {
    const flags = lines.find(line => line.name === name)?.flags.map(flag => flag.name)
    for (const [flag] of rowsOf(name)) t.ok(flags?.includes(flag), `${name} --${flag}`)
    t.equal(new Set(flags).size, flags?.length, `${name} has each once`)
  }
})

t.test('what a flag takes comes from its row', async t => {
  const run = commandLines().find(({ name }) => name === 'run')
  const value = (flag: string) => run?.flags.find(({ name }) => name === flag)?.value
  t.strictSame(value('relay'), ['auto', 'linux', 'portable'])
  t.strictSame(value('proxy-mode'), ['nftables', 'ipvs', 'iptables', 'userspace'])
  t.equal(value('kubeconfig'), 'file')
  t.equal(value('state-dir'), 'directory')
  t.equal(value('bind-address'), 'any')
  t.equal(value('keep-rules'), undefined, 'a switch')
  t.equal(run?.bare, 'file')
  t.equal(value('config-sync-period'), undefined, 'without effect')
})

t.test('help is cut to a sentence, not inside of a name', async t => {
  const helps = commandLines().flatMap(({ flags }) => flags.map(({ help }) => help))
  for (const help of helps) t.notMatch(help, /[.:;]$|[.:;] /)
  t.ok(helps.some(help => help.includes('discovery.k8s.io') || help.includes('/healthz')))
})

t.test('the command prints the script of the shell that is named', async t => {
  const lines = commandLines()
  t.strictSame(await usher('completion', 'bash'), {
    code: 0,
    out: bashScript(lines),
    err: '',
  })
  t.equal((await usher('completion', 'zsh')).out, zshScript(lines))
  t.equal((await usher('completion', 'fish')).out, fishScript(lines))
})

t.test('a wrong call has exit code 2', async t => {
  t.match(await usher('completion'), { code: 2, err: /no shell given/ })
  t.match(await usher('completion', 'tcsh'), { code: 2, err: /give bash, zsh, fish/ })
  t.match(await usher('completion', 'bash', 'zsh'), { code: 2, err: /one shell/ })
})

t.test('an apostrophe does not end a text', async t => {
  t.equal(quoted("kube-proxy's"), String.raw`'kube-proxy'\''s'`)
})
