import t from 'tap'
import { createLog } from '../../src/observe/log.ts'
import { captureLog, kernelLog, repairLog } from '../../src/observe/rule-log.ts'

t.test('modes, captures and addresses report repairs in the same words', async t => {
  const records: Record<string, unknown>[] = []
  const stream = { write: (line: string) => void records.push(JSON.parse(line)) }
  const log = await createLog({ level: 'info', format: 'json', stream })
  const [mode, capture] = [kernelLog(log, 'iptables'), captureLog(log, 'nftables')]
  const addresses = repairLog(log, 'addresses')
  const ways: Record<string, (what: string, error: string) => void> = {
    mode: (what, error) => mode.repaired('IPv4', what, error),
    capture: (what, error) => capture.repaired('IPv4', what, error),
    addresses: (what, error) => addresses(what, error),
  }
  for (const [name, repaired] of Object.entries(ways)) {
    const of = name === 'addresses' ? name : 'rules'
    const put = `another program changed Usher's ${of}; restored them`
    const failed = `another program changed Usher's ${of}; restoring them failed`
    for (const error of ['', 'locked', 'locked', 'refused', ''])
      repaired('a chain is gone', error)
    t.match(
      records.splice(0),
      [
        { level: 'warn', msg: put, what: 'a chain is gone' },
        { level: 'error', msg: failed, error: 'locked' },
        { level: 'error', msg: failed, error: 'refused' },
        { level: 'warn', msg: put },
      ],
      `${name}: the same failure once`,
    )
  }
})
