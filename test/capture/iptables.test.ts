import './parts/forget-proxy-flows.ts'
import './parts/iptables-text.ts'
import './parts/iptables-kernel.ts'
import './parts/iptables-packets.ts'
