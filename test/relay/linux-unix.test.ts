import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay } from '../support/linux-relay.ts'
import { tcpUnixContract } from './contract/tcp-unix.ts'
import { tcpUnixFilesContract } from './contract/tcp-unix-files.ts'

t.test('unix sockets of the Linux relay', { skip: linuxRelaySkip() }, async t => {
  tcpUnixContract(t, makeLinuxRelay)
  tcpUnixFilesContract(t, makeLinuxRelay)
})
