/**
 * What HAProxy and nginx call fields of a route, without hyphens and spaces, and what they are
 * called here. Only words that mean the same.
 */
export const elsewhere: ReadonlyMap<string, string> = new Map([
  ['bind', 'listen'],
  ['server', 'endpoints'],
  ['servers', 'endpoints'],
  ['backends', 'endpoints'],
  ['upstream', 'endpoints'],
  ['maxconn', 'maxConnections'],
  ['maxconns', 'maxConnections'],
  ['timeoutqueue', 'queue'],
  ['maxqueue', 'mostQueued'],
  ['timeoutclient', 'idleTimeout'],
  ['timeoutserver', 'idleTimeout'],
  ['timeouttunnel', 'idleTimeout'],
  ['proxytimeout', 'idleTimeout'],
  ['sendproxy', 'proxyProtocol'],
  ['sendproxyv2', 'proxyProtocol'],
  ['expectproxy', 'acceptProxy'],
  ['onmarkeddown', 'onDown'],
  ['onmarkedup', 'onBack'],
  ['sni', 'serverNames'],
  ['stick', 'affinity'],
  ['log', 'accessLog'],
])
