import { checkTexts } from './bad-checks.ts'
import {
  badEntries,
  form,
  listens,
  options,
  targets,
  unknownOption,
} from './bad-values.ts'

/** A flag, and what its message must have, each part of it. */
type BadFlag = readonly [text: string, ...parts: readonly string[]]

const flag = 'tcp://127.0.0.1:1=a:1'

export const badFlags: readonly BadFlag[] = [
  ...listens
    .filter(([text]) => /^[a-z]+:\/\/[^=?]*$/.test(text))
    .map(([text, message]): BadFlag => [`${text}=a:1`, `: listen ${message}`]),
  ...targets.map(([text, message]): BadFlag => [
    `tcp://127.0.0.1:1=b:1,${text}`,
    `: endpoint ${message}`,
  ]),
  ...targets.map(([text, message]): BadFlag => [
    `tcp://127.0.0.1:1=b:1|c:1,${text}`,
    `: endpoint ${message}`,
  ]),
  ...options
    .filter(([, , value]) => value !== 'a=b')
    .map(([, name, value, message]): BadFlag => [
      `${flag}?${name}=${value}`,
      `: ${name} ${message}`,
    ]),
  ...checkTexts.map(([text, message]): BadFlag => [
    `${flag}?check=${text}`,
    `: check ${message}`,
  ]),
  [`${flag}?on-down=reset`, 'on-down does nothing without check; give that as well'],
  [`${flag}?check=tcp&on-down=rest`, 'on-down "rest" is not keep or reset'],
  [`${flag}?check=http://:1/a&b=c`, `option "b" ${unknownOption}`],
  [`${flag}?nmae=x`, 'option "nmae" is unknown; did you mean name?'],
  [`${flag}?maxconn=9`, 'option "maxconn" is unknown; did you mean max-connections?'],
  [`${flag}?afinity=3h`, 'option "afinity" is unknown; did you mean affinity?'],
  [
    `${flag}?retryEarlyClose=off`,
    'option "retryEarlyClose" is unknown; did you mean retry-early-close?',
  ],
  [`${flag}?listen=tcp://127.0.0.1:2`, `option "listen" ${unknownOption}`],
  [`${flag}?affinity`, 'option "affinity" has no value; give one, like affinity=3h'],
  [
    `${flag}?retry-early-close`,
    'option "retry-early-close" has no value; give one, like retry-early-close=off',
  ],
  [`${flag}?replay`, 'option "replay" has no value; give one, like replay=1k'],
  [`${flag}?name`, 'option "name" has no value; give one, like name=db'],
  [`${flag}?replay=1k&replay=1k`, 'option "replay" is given twice; give it once'],
  [`${flag}?affinity=3h&`, `option "" ${unknownOption}`],
  [`${flag}?affinity=3h,replay=1k`, `affinity "3h,replay=1k" ${form.affinity}`],
  [`${flag}|`, `endpoint "" ${form.target}`],
  [`${flag}||b:1`, `endpoint "" ${form.target}`],
  [`${flag}|a:1`, 'endpoint "a:1" is given twice; give it once'],
  [
    `${flag}|127.0.0.1:1`,
    'endpoint "127.0.0.1:1" is the route itself; give another port',
  ],
  ...badEntries.flatMap((text): BadFlag[] => [
    [`${flag}?allow=${text}`, `allow ${JSON.stringify(text)} ${form.entry}`],
    [`${flag}?deny=10.0.0.0/8,${text}`, `deny ${JSON.stringify(text)} ${form.entry}`],
  ]),
  [`${flag}?accept-proxy=10.0.0.0/33`, `accept-proxy "10.0.0.0/33" ${form.block}`],
  [`${flag}?accept-proxy=10.0.0.1,x`, `accept-proxy "x" ${form.block}`],
  ['udp://127.0.0.1:1=a:1?accept-proxy=10.0.0.1', `accept-proxy ${form.tcpOnly}`],
  ['udp://127.0.0.1:1=a:1?replay=1k', `replay ${form.tcpOnly}`],
  ['udp://127.0.0.1:1=a:1?retry-early-close=on', `retry-early-close ${form.tcpOnly}`],
  [
    `${flag}?retry-early-close=off&replay=1k`,
    'replay does nothing where retryEarlyClose is off; leave it out, or switch that on',
  ],
  [
    'tcp://localhost:1=a,b:1?affinity=1d&sticky=on',
    `listen address "localhost:1" ${form.ip}`,
    `; endpoint "a" ${form.target}`,
    `; affinity "1d" ${form.affinity}`,
    `; option "sticky" ${unknownOption}`,
  ],
]
