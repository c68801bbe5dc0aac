// What JSX becomes in the bundle: calls of a function that no variable hides.

export { Fragment as jsxFragment, h as jsxElement } from "preact";
