import { runTool } from '../../src/kernel/run-tool.ts'

/** Has a tool read much, and says when that has begun. */
const [path = ''] = process.argv.slice(2)
const script = `sleep 0.5; cat > '${path}.part' && mv '${path}.part' '${path}'`
const running = runTool('sh', ['-c', script], { input: 'line\n'.repeat(1_000_000) })
console.log('running')
await running
