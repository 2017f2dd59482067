//! `POST /api/v1/products` and the on-shelf and off-shelf routes.

use super::bodies::{NO_MONEY, NO_OBJECT, NO_TEXT, each};
use super::case::{Case, get, post};
use super::market::{BUYER, FOREIGN_SELLER, Market, SELLER};

const PRODUCTS: &str = "/api/v1/products";

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [titles(), prices(), shapes(), shelves(market), accepted()].concat()
}

fn listing(name: &str, body: &str) -> Case {
    post(&format!("product, {name}"), PRODUCTS).by(SELLER).json(body)
}

fn titles() -> Vec<Case> {
    let with_title = |name: &str, title: &str| listing(name, &format!(r#"{{"title":{title},"price":1}}"#));
    let text = |name: &str, title: &str| with_title(name, &format!("\"{title}\"")).invalid(&["title"]);
    let mut cases = each(&NO_TEXT, "title", with_title);
    cases.extend([
        listing("without a title", r#"{"price":1}"#).invalid(&["title"]),
        text("empty title", ""),
        text("blank title", "   "),
        text("title of 121 characters", &"x".repeat(121)),
        text("title of 121 wide characters", &"字".repeat(121)),
        text("title with a line break", r"a\nb"),
        text("title with a NUL", r"a\u0000"),
        text("title with a DEL", r"a\u007f"),
        text("title with a C1 control", r"a\u0085b"),
        text("title with half a surrogate pair", r"\ud800"),
    ]);
    cases
}

fn prices() -> Vec<Case> {
    let with_price = |name: &str, price: &str| listing(name, &format!(r#"{{"title":"a","price":{price}}}"#));
    let mut cases = each(&NO_MONEY, "price", with_price);
    let wrong = [
        ("zero", "0"),
        ("zero with decimals", "0.00"),
        ("minus zero", "-0"),
        ("a tenth of a cent", "0.001"),
        ("a cent too much", "10000000.00"),
        ("2^53", "9007199254740992"),
    ];
    cases.extend(each(&wrong, "price", with_price));
    cases.push(listing("without a price", r#"{"title":"a"}"#).invalid(&["price"]));
    cases
}

fn shapes() -> Vec<Case> {
    let mut cases: Vec<Case> =
        NO_OBJECT.iter().map(|(name, body)| listing(name, body).invalid(&["body"])).collect();
    cases.extend([
        listing("no fields", "{}").invalid(&["title", "price"]),
        listing("both fields invalid", r#"{"title":"","price":0}"#).invalid(&["title", "price"]),
        listing("an unknown field", r#"{"title":"a","price":1,"discount":1}"#).invalid(&["discount"]),
        listing(
            "fields of the response",
            r#"{"title":"a","price":1,"productId":7,"status":"sold","sellerId":9}"#,
        )
        .invalid(&["productId", "status", "sellerId"]),
        listing("a field name with other capitalization", r#"{"Title":"a","price":1}"#)
            .invalid(&["Title", "title"]),
        listing("a duplicate field", r#"{"title":"a","price":1,"price":2}"#).invalid(&["price"]),
        listing("a duplicate field with the same value", r#"{"title":"a","title":"a","price":1}"#)
            .invalid(&["title"]),
        listing("a duplicate unknown field", r#"{"title":"a","price":1,"x":1,"x":2}"#).invalid(&["x", "x"]),
        listing("a thousand levels deep", &format!(r#"{{"title":{},"price":1}}"#, "[".repeat(1_000)))
            .invalid(&["body"]),
        post("product, no body", PRODUCTS)
            .by(SELLER)
            .header("Content-Type", "application/json")
            .invalid(&["body"]),
        post("product, not UTF-8", PRODUCTS)
            .by(SELLER)
            .header("Content-Type", "application/json")
            .body(*b"{\"title\":\"\xff\xfe\",\"price\":1}")
            .invalid(&["body"]),
    ]);
    cases
}

fn shelves(market: &Market) -> Vec<Case> {
    let shelf = |name: &str, product: i64, way: &str| {
        post(&format!("shelf, {name}"), &format!("{PRODUCTS}/{product}/{way}-shelf"))
    };
    let Market { product, sold, hidden, foreign, .. } = *market;
    vec![
        shelf("another user's product", product, "off").by(BUYER).refused(403, "A0303", &[]),
        shelf("another user's hidden product", hidden, "on").by(BUYER).refused(403, "A0303", &[]),
        shelf("a sold product is taken off sale", sold, "off").by(SELLER).refused(409, "A0409", &[]),
        shelf("a sold product is put on sale", sold, "on").by(SELLER).refused(409, "A0409", &[]),
        shelf("a product on sale is put on sale", product, "on").by(SELLER).refused(409, "A0409", &[]),
        shelf("a hidden product is taken off sale", hidden, "off").by(SELLER).refused(409, "A0409", &[]),
        shelf("another tenant's product", foreign, "off").by(SELLER).refused(404, "A0404", &[]),
        shelf("a seller of another tenant", product, "off").by(FOREIGN_SELLER).refused(404, "A0404", &[]),
        shelf("a field", product, "off").by(SELLER).json(r#"{"price":1}"#).invalid(&["price"]),
        shelf("not an object", product, "off").by(SELLER).json("[]").invalid(&["body"]),
        shelf("no token", product, "off").refused(401, "A0301", &[]),
        get("another tenant's product", &format!("{PRODUCTS}/{foreign}")).by(BUYER).refused(
            404,
            "A0404",
            &[],
        ),
        get("a product from another tenant", &format!("{PRODUCTS}/{product}")).by(FOREIGN_SELLER).refused(
            404,
            "A0404",
            &[],
        ),
        get("a product that does not exist", &format!("{PRODUCTS}/9007199254740991")).by(BUYER).refused(
            404,
            "A0404",
            &[],
        ),
    ]
}

/// Valid requests at the limits.
fn accepted() -> Vec<Case> {
    let wide = "字".repeat(120);
    vec![
        listing("the highest price", r#"{"title":"a","price":9999999.99}"#).done(201),
        listing("the lowest price", r#"{"title":"a","price":0.01}"#).done(201),
        listing("one decimal", r#"{"title":"a","price":88.5}"#).done(201),
        listing("the longest title", &format!(r#"{{"title":"{wide}","price":1}}"#)).done(201),
        listing("a title with quotes and a semicolon", r#"{"title":"'; DROP TABLE products; --","price":1}"#)
            .done(201),
    ]
}
