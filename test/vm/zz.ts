import t from 'tap'
import { readFileSync } from 'node:fs'
import { execSync } from 'node:child_process'
import { startMachine } from './machine.ts'
import { manifests } from './parts/services.ts'
t.setTimeout(600000)
t.test('x', async t => {
  const cpu = () => { try { const pid = execSync('pgrep -P '+process.pid+' qemu').toString().trim(); const f = readFileSync('/proc/'+pid+'/stat','utf8').split(') ')[1]!.split(' '); return (Number(f[11])+Number(f[12]))*10 } catch {return 0} }
  let a = performance.now(), c = 0
  let m = await startMachine(t)
  const lap = async (s: string) => { const n = cpu(); const now = performance.now(); console.error(s, 'wall', Math.round(now - a), 'cpu', n - c); a = performance.now(); c = cpu() }
  await m.write('/mnt/services.yaml', manifests())
  const program = process.env['USHER_PROGRAM']!
  await lap('boot')
  for (const flags of [[], ['--no-opt'], ['--max-lazy', '--no-opt', '--no-sparkplug'],['--jitless'], ['--single-threaded'],[]]) {
  await m.try(process.execPath, ...flags, program, 'check')
  await lap(flags.join() + ' check')
  const u = await m.launch(process.execPath, ...flags, program, 'run', '--capture', 'listen', '--log-format', 'json', '/mnt/services.yaml')
  await u.said('"serving"')
  await lap(flags.join() + ' listen')
  await u.end('SIGKILL')
  }
})
