import { createContext, Script as Program } from 'node:vm'
import { type CheckOutcome, denied, failed, passed, quote } from '../check.ts'
import { type Check, patternOf, readBytes } from '../check-option.ts'
import type { Script } from '../conversation.ts'
import { printable } from '../../util/printable.ts'

/** As much of an answer as is looked at. */
const mostExpected = 4096

/**
 * An expression that needs longer goes through its text in very many ways. It is time on the
 * wall: on a host with too much to do a sound one may take a while, too.
 */
const mostMatchMs = 100

/**
 * Up is what answers as expected; what it says after that does not matter. Makes a script for
 * each check.
 */
export const sendExpectScripts = ({ send = '', expect = '' }: Check): (() => Script) => {
  const [pattern, prefix] = [patternOf(expect), readBytes(expect) ?? '']
  const judge = pattern === undefined ? prefixJudge(prefix) : patternJudge(pattern)
  const wanted = pattern === undefined ? quoteText(prefix) : `/${printable(pattern)}/`
  const script: Script = {
    unmatched: bytes => answered(bytes.toString('latin1', 0, mostExpected), wanted),
    ...(send !== '' && { opening: Buffer.from(readBytes(send) ?? '', 'latin1') }),
    mostBytes: mostExpected,
    receive: bytes => {
      const outcome = judge(bytes.toString('latin1', 0, mostExpected))
      return outcome && { outcome }
    },
  }
  return () => script
}

type Judge = (received: string) => CheckOutcome | undefined

const answered = (received: string, expected: string): CheckOutcome =>
  denied(`answered ${quoteText(received)}, expected ${expected}`)

const quoteText = (text: string): string => quote(Buffer.from(text, 'latin1'))

const prefixJudge =
  (prefix: string): Judge =>
  received => {
    if (received.startsWith(prefix)) return passed
    return prefix.startsWith(received) ? undefined : answered(received, quoteText(prefix))
  }

/** In a program of its own, as that can be stopped: a server must not hold everything up. */
const patternJudge = (pattern: string): Judge => {
  const scope = createContext({ expression: new RegExp(pattern), received: '' })
  const program = new Program('expression.test(heard)')
  return received => {
    scope['heard'] = received
    try {
      if (program.runInContext(scope, { timeout: mostMatchMs }) === true) return passed
    } catch {
      return failed(`/${pattern}/ takes too long for ${quoteText(received)}`)
    }
    return received.length < mostExpected ? undefined : answered(received, `/${pattern}/`)
  }
}
