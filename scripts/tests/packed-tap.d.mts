export function packTap(): Promise<void>
export const packedTap: string | undefined
