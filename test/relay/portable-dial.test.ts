// A process of its own: long.
import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpDialContract } from './contract/tcp-dial.ts'

tcpDialContract(t, makePortableRelay)
