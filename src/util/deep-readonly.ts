/** Of what a schema infers, which are mutable objects in mutable lists. */
export type DeepReadonly<T> = T extends object
  ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
  : T
