import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { udpContract } from './contract/udp.ts'

udpContract(t, makePortableRelay)
