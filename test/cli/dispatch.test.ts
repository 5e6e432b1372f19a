import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { withFlagsTable } from '../../scripts/flags-table.ts'
import { main } from '../../src/cli/dispatch.ts'
import { commandHelp, mainHelp } from '../../src/cli/help.ts'
import { commandNames, commands } from '../../src/config/commands.ts'
import { parseOptions } from '../../src/config/parse.ts'
import { rowsOf } from '../../src/config/options.ts'
import { keptIo } from '../support/kept-io.ts'
import { typescript } from '../support/typescript.ts'

const usher = async (...args: string[]) => {
  const { io, printed } = keptIo()
  const code = await main(args, io)
  return { code, ...printed }
}

const manifests = (t: Test, files: Record<string, string>): string => t.testdir(files)

const service = (name: string, more = ''): string => `apiVersion: v1
kind: Service
metadata: {name: ${name}}
spec:
  clusterIP: 127.96.0.10
  ports: [{name: http, port: 80}]
${more}`

const slice = (name: string, owner: string, conditions = ''): string => `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${name}, labels: {kubernetes.io/service-name: ${owner}}}
addressType: IPv4
endpoints: [{addresses: [192.0.2.7]${conditions}}]
ports: [{name: http, port: 9001}]
`

const widest = (text: string) => Math.max(...text.split('\n').map(line => line.length))

t.test('help lists every command and fits the terminal', async t => {
  const { code, out } = await usher('--help')
  t.equal(code, 0)
  for (const name of commandNames) t.match(out, `  ${name}`)
  t.equal((await usher('help')).out, out)
  t.equal((await usher('-h')).out, out)
})

t.test('the help of a command has each of its flags, and no other', async t => {
  for (const name of commandNames) {
    const { code, out } = await usher(name, '--help')
    t.equal(code, 0)
    t.equal((await usher('help', name)).out, out)
    const shown = [...out.matchAll(/^ {2}--([a-z-]+)/gm)].map(match => match[1])
    t.strictSame(
      shown,
      rowsOf(name).map(([flag]) => flag),
    )
  }
})

t.test('help is as wide as the terminal, within 80 and 100 columns', async t => {
  for (const name of commandNames) {
    t.ok(widest(commandHelp(name)) <= 80, name)
    t.ok(widest(commandHelp(name, 20)) <= 80, name)
    t.ok(widest(commandHelp(name, 500)) <= 100, name)
  }
  t.ok(widest(mainHelp()) <= 80)
  t.ok(widest(commandHelp('run', 500)) > 80)
})

t.test('help is given even when the rest of the line is wrong', async t => {
  const { code, out } = await usher('run', '--quux', '--drain-timeout', 'x', '--help')
  t.equal(code, 0)
  t.match(out, 'Usage: usher run')
})

t.test('every example in the help is a command line that is understood', async t => {
  for (const name of commandNames) {
    for (const [line] of commands[name].examples) {
      const words = line.split(' | ')[0]?.replaceAll("'", '').split(' ') ?? []
      t.strictSame(words.slice(0, 2), ['usher', name])
      t.doesNotThrow(() => parseOptions(name, words.slice(2)), line)
    }
  }
})

t.test('a wrong call exits 2 and says what to try', async t => {
  t.strictSame(await usher('run', '--drain-timeout', 'abc'), {
    code: 2,
    out: '',
    err: `usher run: --drain-timeout: "abc" is not a duration; give a number with a unit, like 30s or 1m30s
Try: usher run --help
`,
  })
  t.strictSame(await usher('stats'), {
    code: 2,
    out: '',
    err: 'usher: "stats" is not a command; did you mean status?\nTry: usher --help\n',
  })
  t.match((await usher('quux')).err, '; give run, sidecar, demo, check, status')
  t.match((await usher('__proto__')).err, '"__proto__" is not a command')
  t.match((await usher('--once')).err, 'flags come after a command')
  t.match((await usher('help', 'rnu')).err, 'did you mean run?')
  t.notMatch((await usher('\u001B[2J')).err, '\u001B')
})

t.test('no command at all exits 2 with the help', async t => {
  t.strictSame(await usher(), { code: 2, out: '', err: mainHelp() })
})

t.test('the version is that of the package', async t => {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(text) as { version: string }
  t.strictSame(await usher('--version'), { code: 0, out: `usher ${version}\n`, err: '' })
})

t.test('the flags in the docs are those of the table', async t => {
  const page = readFileSync(new URL('../../docs/flags.md', import.meta.url), 'utf8')
  const fresh = await withFlagsTable(page)
  t.equal(page, fresh, 'if not, run: npm run docs')
  const stale = page.replaceAll('--udp-max-flows-per-port', '--old-flag')
  t.equal(await withFlagsTable(stale), fresh)
  await t.rejects(withFlagsTable('# Flags'), { message: /flags:begin/ })
})

t.test('check passes sound manifests', async t => {
  const dir = manifests(t, { 'a.yaml': service('web'), 'b.yaml': slice('web-1', 'web') })
  t.strictSame(await usher('check', dir), {
    code: 0,
    out: `2 files, 2 documents: 1 Service, 1 EndpointSlice; 0 problems
next: usher run --manifests ${dir} --capture listen
      changes nothing on the host; as root and without --capture it programs the kernel
`,
    err: '',
  })
})

t.test('check names the file, document, object and field of a problem', async t => {
  const text = service('web', '---\n') + service('bad').replace('port: 80', 'port: 70000')
  const dir = manifests(t, { 'a.yaml': text })
  const { code, out } = await usher('check', `${dir}/a.yaml`)
  t.equal(code, 1)
  t.match(
    out,
    /^problem: .*a\.yaml document 2 \(Service default\/bad\): spec\.ports\[0\]/,
  )
  t.match(out, '1 file, 2 documents: 2 Services; 1 problem, 1 warning\n')
  t.match(out, `\nnext: fix the problems above, then run: usher check ${dir}/a.yaml\n`)
})

t.test('check finds a VIP that two Services claim', async t => {
  const text = service('web', '---\n') + service('rival') + slice('web-1', 'web')
  const dir = manifests(t, { 'a.yaml': text })
  const { code, out } = await usher('check', dir)
  t.equal(code, 1)
  t.match(out, /problem: Service default\/rival: .*127\.96\.0\.10:80\/TCP is held by/)
})

t.test('check warns of what is missing, and passes', async t => {
  const text = service('web') + slice('lost-1', 'lost')
  const { code, out } = await usher('check', manifests(t, { 'a.yaml': text }))
  t.equal(code, 0)
  t.match(out, 'warning: Service default/web:http (TCP, IPv4) has no endpoints;')
  t.match(out, 'warning: EndpointSlice default/lost-1 is for Service default/lost, which')
  const unready = service('web') + slice('web-1', 'web', ', conditions: {ready: false}')
  const second = await usher('check', manifests(t, { 'a.yaml': unready }))
  t.match(second.out, 'has no endpoint that is ready; its clients would be refused')
  const nothing = await usher('check', manifests(t, { 'a.txt': '' }))
  t.strictSame(
    [nothing.code, nothing.out.split('\n')[0]],
    [0, 'warning: there is no Service with an address to serve'],
  )
})

t.test('check does not call missing what a broken document may hold', async t => {
  const files = { 'a.yaml': service('web'), 'b.yaml': 'a: [' }
  const { code, out } = await usher('check', manifests(t, files))
  t.equal(code, 1)
  t.match(out, 'b.yaml document 1')
  t.notMatch(out, 'warning')
})

t.test('check says once what it passed over', async t => {
  const other = 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n'
  const dir = manifests(t, { 'a.yaml': `${other}---\n${other}` })
  const { code, out } = await usher('check', dir)
  t.equal(code, 0)
  t.equal(out.split('skipped: apps/v1 Deployment').length, 2)
  t.match(out, '1 file, 2 documents: nothing Usher reads; 0 problems')
})

t.test('check also checks the flags of run, and that there are files', async t => {
  const dir = manifests(t, { 'a.yaml': service('web') })
  const sound = await usher('check', dir, '--drain-timeout', '1m', '--capture=listen')
  t.equal(sound.code, 0)
  t.match(
    sound.out,
    `\nnext: usher run --manifests ${dir} --drain-timeout 1m --capture=listen\n`,
  )
  t.notMatch(sound.out, 'changes nothing')
  const { code, err } = await usher('check', dir, '--dial-ladder', '1s,x')
  t.equal(code, 2)
  t.match(err, 'usher check: --dial-ladder: "x" is not a duration')
  t.match(await usher('check', `${dir}/none`), { code: 1, out: /problem: .*none/ })
})

t.test('check says of a file of routes that it is in order', async t => {
  const routes = 'routes:\n  - {listen: tcp://127.0.0.1:1, endpoints: [a:1]}\n'
  const dir = manifests(t, { 'a.yaml': routes, 'web.yaml': service('web') })
  t.strictSame(await usher('check', `${dir}/a.yaml`), {
    code: 0,
    out: `${dir}/a.yaml: 1 route, ok\nnext: usher sidecar --config ${dir}/a.yaml\n`,
    err: '',
  })
  const both = await usher('check', `${dir}/a.yaml`, `${dir}/web.yaml`)
  t.equal(both.code, 0)
  t.match(both.out, 'a.yaml: 1 route, ok\n')
  t.match(both.out, '1 file, 1 document: 1 Service; 0 problems')
  t.match(both.out, `next: usher run --manifests ${dir}/web.yaml --capture listen\n`)
  t.match(both.out, `\n      usher sidecar --config ${dir}/a.yaml\n`)
})

t.test('check looks at routes given by flag, beside files', async t => {
  const route = 'tcp://127.0.0.1:1=a:1?check=tcp'
  t.strictSame(await usher('check', `--route=${route}`), {
    code: 0,
    out: `--route: 1 route, ok\nnext: usher sidecar '--route=${route}'\n`,
    err: '',
  })
  const routes = 'routes:\n  - {listen: tcp://127.0.0.1:1, endpoints: [b:1]}\n'
  const dir = manifests(t, { 'a.yaml': routes, 'web.yaml': service('web') })
  const clash = await usher('check', '--route', route, `${dir}/a.yaml`)
  t.equal(clash.code, 1)
  t.match(clash.out, /problem: .*a\.yaml: line 2: .*1 is taken by route "tcp:/)
  t.match(clash.out, `run: usher check ${dir}/a.yaml --route '${route}'\n`)
  const twice = await usher('check', '--route', route, `--route=tcp://127.0.0.1:1=b:2`)
  t.equal(twice.code, 1)
  t.match(twice.out, /problem: --route: route "tcp:.*b:2": .*1 is taken by route/)
  const list = await usher('check', `--route=tcp://127.0.0.1:1=a:1?deny=file:${dir}/no`)
  t.match(list, { code: 1, out: `problem: ${dir}/no: there is no such file` })
  t.match(await usher('check', '--route=tcp://127.0.0.1:1=a'), { code: 2 })
  const all = ['--route', route.replace(':1=', ':2='), `${dir}/a.yaml`, `${dir}/web.yaml`]
  const { code, out } = await usher('check', ...all)
  t.equal(code, 0)
  t.match(out, `next: usher run --manifests ${dir}/web.yaml --capture listen\n`)
  t.match(out, `\n      usher sidecar --route '${all[1]}' --config ${dir}/a.yaml\n`)
})

t.test('check lists all that is wrong with a file of routes', async t => {
  const dir = manifests(t, {
    'a.yaml': 'routes:\n  - {listen: tcp://localhost:1, endpoint: [a:1]}\n',
    'b.yaml': 'route:\n  - {}\n',
    'c.yaml': 'routes: [\n',
    'd.json': '{\n"routes": []}',
    'e.yaml': '- listen: tcp://127.0.0.1:1\n  endpoints: [a:1]\n',
    'f.yaml': 'listen: tcp://127.0.0.1:1\nendpoints: [a:1]\n',
    'web.yaml': service('web'),
  })
  const { code, out } = await usher('check', `${dir}/a.yaml`, `${dir}/web.yaml`)
  t.equal(code, 1)
  t.match(out, `problem: ${dir}/a.yaml: line 2: routes[0].listen: address "localhost:1"`)
  t.match(out, `problem: ${dir}/a.yaml: line 2: routes[0].endpoint: is unknown; did you`)
  t.match(out, `${dir}/a.yaml: 3 problems\n`)
  t.match(out, '1 Service; 0 problems')
  for (const [name, said] of [
    ['b.yaml', 'line 1: route: is unknown; did you mean routes?'],
    ['c.yaml', 'line 2: Flow sequence'],
    ['d.json', 'line 2: routes: is empty; give a list of routes'],
    ['e.yaml', 'line 1: a list is not a file of routes; give routes: ['],
    ['f.yaml', 'line 1: routes: is missing; give a list of routes'],
  ] as const) {
    const found = await usher('check', `${dir}/${name}`)
    t.equal(found.code, 1, name)
    t.match(found.out, `problem: ${dir}/${name}: ${said}`)
  }
})

/** The command as a process of its own; `close` ends its output before it writes. */
const spawned = async (t: Test, args: string[], close: 'read' | 'close') => {
  const path = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
  const child = spawn(process.execPath, [typescript, path, ...args])
  t.teardown(() => child.kill())
  let out = ''
  let err = ''
  child.stderr.on('data', (text: Buffer) => (err += text.toString()))
  if (close === 'close') child.stdout.destroy()
  else child.stdout.on('data', (text: Buffer) => (out += text.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out, err }
}

t.test('a reader that went away is no error', async t => {
  const { code, err } = await spawned(t, ['help', 'run'], 'close')
  t.equal(code, 0, err)
  t.equal(err, '')
})

t.test('the process ends with the exit code of the command', async t => {
  t.match(await spawned(t, ['run', '--quux'], 'read'), {
    code: 2,
    out: '',
    err: 'unknown flag --quux',
  })
  t.match(await spawned(t, ['help', 'run'], 'read'), { code: 0, out: /--log-format/ })
})
