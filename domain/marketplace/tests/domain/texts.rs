//! Texts entered by users: limited length in characters, no control characters.

use handover_events::TextError;
use marketplace_domain::{Shipment, Title};

use crate::common::title;

#[test]
fn title_has_1_to_120_characters_of_any_byte_length() {
    for character in ["a", "é", "车", "🚲"] {
        assert_eq!(title(character).as_str(), character);
        assert_eq!(String::from(title(character)), character);
        assert_eq!(title(&character.repeat(120)).as_str().chars().count(), 120);
        assert_eq!(Title::try_from(character.repeat(121)), Err(TextError { max: 120 }), "{character}");
    }
}

#[test]
fn blank_title_or_control_character_is_rejected() {
    for text in ["", " ", "\u{3000}", "a\nb", "a\tb", "a\0", "\u{7f}", "a\u{85}b"] {
        assert_eq!(Title::try_from(text.to_owned()), Err(TextError { max: 120 }), "{text:?}");
        let json = serde_json::to_string(text).unwrap();
        assert!(serde_json::from_str::<Title>(&json).is_err(), "{json}");
    }
}

#[test]
fn shipment_error_names_the_invalid_field() {
    let longest = "车".repeat(Shipment::MAX_CHARS);
    let shipment = Shipment::new(longest.clone(), longest.clone()).unwrap();
    assert_eq!((shipment.carrier(), shipment.tracking_no()), (longest.as_str(), longest.as_str()));

    let refused = TextError { max: Shipment::MAX_CHARS };
    for illegal in [String::new(), " ".into(), "a\nb".into(), format!("{longest}a")] {
        assert_eq!(Shipment::new(illegal.clone(), "1".into()), Err(("carrier", refused)), "{illegal:?}");
        assert_eq!(Shipment::new("SF".into(), illegal.clone()), Err(("trackingNo", refused)), "{illegal:?}");
    }
}
