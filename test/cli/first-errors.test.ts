import t, { type Test } from 'tap'
import { main } from '../../src/cli/dispatch.ts'
import { keptIo } from '../support/kept-io.ts'

// What a newcomer does wrong first: each is said with the flag it is about and what would be right.

/** What is refused before anything is listened on. */
const refuses = async (
  t: Test,
  args: readonly string[],
  code: number,
  words: RegExp,
): Promise<void> => {
  const { io, printed } = keptIo()
  const line = `usher ${args.join(' ')}`
  t.equal(await main(args, io), code, line)
  t.equal(printed.out, '', 'it says so on stderr')
  t.match(printed.err, words, line)
  t.notMatch(printed.err, /^ +at /m, `${line}: without a stack`)
}

t.test('commands and flags', async t => {
  await refuses(t, [], 2, /^Usher is a proxy .*Usage: usher COMMAND/s)
  await refuses(t, ['rnu'], 2, /did you mean run\?\nTry: usher --help/)
  await refuses(t, ['run', '--manifest', 'x'], 2, /--manifest; did you mean --manifests/)
  await refuses(t, ['run', '--capture=all'], 2, /--capture: "all" .*give auto, nftables/)
})

t.test('files', async t => {
  const dir = t.testdir({
    'bad.yaml': 'a: [\n',
    'service.yaml': 'apiVersion: v1\nkind: Service\nmetadata: {name: web}\n',
  })
  const of = (name: string) => `${dir}/${name}`
  for (const [args, code, words] of [
    [['run', '--kubeconfig', of('no')], 2, /no such file .*; give --kubeconfig a file/],
    [['run', '--kubeconfig', of('bad.yaml')], 2, /kubeconfig \S+: is not YAML: line 2/],
    [
      ['run', '--kubeconfig', of('service.yaml')],
      2,
      /kind "Service" and is not .*--manifests/,
    ],
    [['run', '--config', of('no')], 2, /--config \S+no: there is no such file/],
    [['run', '--config', of('bad.yaml')], 2, /--config \S+bad.yaml: line 2/],
    [['sidecar', '--config', of('no')], 2, /--config \S+no: there is no such file/],
    [['sidecar', '--config', of('service.yaml')], 2, /give it to usher run --manifests/],
    [['sidecar', 'routes.yaml'], 2, /; give a file of routes as --config routes.yaml/],
  ] as const)
    await refuses(t, args, code, words)
})

t.test('addresses', async t => {
  const route = (text: string) => ['sidecar', '--route', text]
  const v6 = 'tcp://127.0.0.1:1=fd00::5:5432'
  await refuses(t, route('127.0.0.1:1=a:1'), 2, /--route: .*give one like tcp:\/\//)
  await refuses(
    t,
    route('tcp://127.0.0.1:1=10.0.0.5'),
    2,
    /HOST:PORT .*like 10\.0\.0\.5:/,
  )
  await refuses(t, route(v6), 2, /--route: .*without brackets; write \[fd00::5\]:5432/)
  await refuses(t, route('http://127.0.0.1:1=a:1'), 2, /"http" is not tcp .*; give tcp:/)
  await refuses(t, ['wait', 'fd00::5:53'], 2, /without brackets; write \[fd00::5\]:53/)
  await refuses(t, ['status', '--address=::1:x'], 2, /--address: .*\[::1\]:10249/)
})
